// Shared by all threads that call the callable; segments do not change once they are in, so that a call in
// flight can go on with one that was cut meanwhile.
#include "capture/trace_graph.h"

#include "capture/dim_marks.h"

#include <algorithm>
#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

/// So many sizes of one structure are kept beside the recorded ones; the least used go first.
constexpr size_t kKeptDerived = 16;
/// A size that comes again within so many others is worth keeping.
constexpr size_t kRecentSizes = 256;

uint64_t structureAfter(const Segment &segment, size_t rows) {
  return rows == segment.size() ? segment.structure : segment.infos[rows].prefixStructure;
}

uint64_t structureOf(const SegmentNode *node) { return node ? node->segment.structure : 0; }

template <class T> bool addNew(std::vector<T> &items, const T &item) {
  if (std::find(items.begin(), items.end(), item) != items.end())
    return false;
  items.push_back(item);
  return true;
}

bool isMarkedStatic(const SegmentValue &value, size_t dim) {
  const DimMark *mark = markOf(value.marks, dim);
  return mark && !mark->isDynamic;
}

std::string nameOf(const Segment &segment, ValueId id) {
  const std::string &name = segment.values[id].name;
  return name.empty() ? fmt::format("tensor {} of segment {}", id, segment.number) : "'" + name + "'";
}

/// Of the tensors that a segment takes, as one number.
uint64_t sizesOf(const Segment &segment) {
  uint64_t hash = 0;
  for (ValueId id : segment.liveIns)
    for (int64_t size : segment.values[id].metadata.sizes)
      hash = (hash ^ static_cast<uint64_t>(size)) * 0x9e3779b97f4a7c15ull + (hash >> 29);
  return hash;
}

} // namespace

std::vector<SegmentPtr> TraceGraph::startingWith(const void *op, const SegmentNode *after) const {
  std::shared_lock lock(mutex_);
  auto it = starts_.find(op);
  if (it == starts_.end())
    return {};
  std::vector<SegmentPtr> found = it->second;
  const auto &next = after ? after->next : entries_;
  auto count = [&](const SegmentPtr &node) {
    auto seen = next.find(node.get());
    return seen == next.end() ? 0 : seen->second;
  };
  if (found.size() > 1)
    std::stable_sort(found.begin(), found.end(),
                     [&](const SegmentPtr &a, const SegmentPtr &b) { return count(a) > count(b); });
  return found;
}

std::vector<SegmentPtr> TraceGraph::alternatives(const SegmentPtr &segment, size_t rows) const {
  std::vector<SegmentPtr> found;
  if (rows == 0)
    return found;
  std::shared_lock lock(mutex_);
  auto it = starts_.find(segment->segment.rows[0].op);
  if (it == starts_.end())
    return found;
  for (const SegmentPtr &other : it->second)
    if (other != segment && other->segment.size() > rows &&
        samePrefix(other->segment, segment->segment, rows))
      found.push_back(other);
  return found;
}

SegmentPtr TraceGraph::exactly(const SegmentPtr &segment, size_t rows) const {
  std::shared_lock lock(mutex_);
  auto it = starts_.find(segment->segment.rows[0].op);
  if (it != starts_.end())
    for (const SegmentPtr &other : it->second)
      if (other->segment.size() == rows && samePrefix(other->segment, segment->segment, rows))
        return other;
  return nullptr;
}

bool TraceGraph::mayRecord(const SegmentNode *after, const void *op) const {
  std::shared_lock lock(mutex_);
  auto count = recordings_.find({structureOf(after), op});
  return all_.size() < maxSegments_ && (count == recordings_.end() || count->second < maxStarts_);
}

void TraceGraph::noteRecording(const SegmentNode *after, const void *op) {
  std::unique_lock lock(mutex_);
  ++recordings_[{structureOf(after), op}];
}

SegmentPtr TraceGraph::add(Segment segment, bool isCut, std::string reason) {
  std::vector<SegmentPtr> &same = starts_[segment.rows[0].op];
  for (const SegmentPtr &node : same) {
    if (node->segment.size() != segment.size() || !samePrefix(node->segment, segment, segment.size()))
      continue;
    node->isCut |= isCut;
    return node;
  }
  auto node = std::make_shared<SegmentNode>();
  node->segment = std::move(segment); // settled; what its rows point to does not move
  node->segment.number = numbers_++;
  node->isCut = isCut;
  node->reason = std::move(reason);
  if (hasLiar(node->segment)) { // recorded while the operator was found out
    node->isRetired = true;
    return node;
  }
  same.push_back(node);
  all_.push_back(node);
  return node;
}

SegmentPtr TraceGraph::addRecorded(Segment segment, bool isCut, std::string reason) {
  SegmentPtr node = add(std::move(segment), isCut, std::move(reason));
  if (node->family)
    return node;
  node->shapeSources = std::make_unique<std::atomic<ShapeSource>[]>(node->segment.size());
  join(node);
  return node;
}

/// Finds the node's family, and what the node shows to vary in it.
void TraceGraph::join(const SegmentPtr &node) {
  for (const SegmentPtr &other : starts_[node->segment.rows[0].op]) {
    if (other == node || other->isDerived || other->segment.size() != node->segment.size() ||
        !sameStructure(other->segment, node->segment, node->segment.size()))
      continue;
    node->family = other->family;
    if (dynamic_ != Dynamic::never)
      noteVarying(*node->family, other->segment, node->segment);
  }
  if (!node->family)
    node->family = std::make_shared<Family>();
}

void TraceGraph::noteVarying(Family &family, const Segment &a, const Segment &b) {
  auto varying = std::make_shared<Varying>(*family.varying); // calls in flight read the old one
  for (ValueId id : a.liveIns) {
    const SegmentValue &x = a.values[id], &y = b.values[id];
    for (uint32_t dim = 0; dim < x.metadata.sizes.size(); ++dim)
      if (x.metadata.sizes[dim] != y.metadata.sizes[dim] && !isMarkedStatic(x, dim) &&
          !isMarkedStatic(y, dim) && addNew(varying->dims, {id, dim}))
        news_.push_back(fmt::format("dim {} of {} is dynamic from now on: {}, then {}", dim, nameOf(b, id),
                                    x.metadata.sizes[dim], y.metadata.sizes[dim]));
  }
  for (uint32_t row = 0; row < a.size(); ++row)
    for (const LateScalar &integer : a.infos[row].integers) {
      Word x = a.infos[row].words[integer.word], y = b.infos[row].words[integer.word];
      if (x != y && addNew(varying->integers, {row, integer.word}))
        news_.push_back(fmt::format("{}: '{}' is dynamic from now on: {}, then {}", a.infos[row].facts->name,
                                    a.infos[row].facts->arguments[integer.argument].name,
                                    static_cast<int64_t>(x), static_cast<int64_t>(y)));
    }
  family.varying = std::move(varying);
}

std::shared_ptr<const Varying> TraceGraph::varyingOf(const SegmentPtr &recorded) const {
  std::shared_lock lock(mutex_);
  return recorded->family->varying;
}

std::vector<Template> TraceGraph::templates(const void *op) const {
  std::shared_lock lock(mutex_);
  std::vector<Template> found;
  auto it = starts_.find(op);
  if (it == starts_.end())
    return found;
  std::vector<const Family *> seen;
  for (auto node = it->second.rbegin(); node != it->second.rend(); ++node)
    if (!(*node)->isDerived && addNew(seen, static_cast<const Family *>((*node)->family.get())))
      found.push_back({*node, (*node)->family->varying});
  return found;
}

std::vector<Template> TraceGraph::templatesLike(const Segment &segment, size_t rows, const void *op) const {
  std::vector<Template> found = templates(segment.rows[0].op);
  std::erase_if(found, [&](const Template &item) {
    const Segment &base = item.base->segment;
    return base.size() <= rows || base.rows[rows].op != op || !sameStructure(base, segment, rows);
  });
  return found;
}

void TraceGraph::dropLeastUsed(Family &family) {
  if (family.derived.size() <= kKeptDerived)
    return;
  remove(*std::min_element(family.derived.begin(), family.derived.end(),
                           [](const auto &a, const auto &b) { return a->lastVisit < b->lastVisit; }));
  ++generation_;
}

void TraceGraph::noteDerived(const Segment &derived, const SegmentPtr &base) {
  std::unique_lock lock(mutex_);
  if (base->isRetired)
    return;
  Family &family = *base->family;
  const uint64_t sizes = sizesOf(derived);
  if (std::find(family.recentSizes.begin(), family.recentSizes.end(), sizes) == family.recentSizes.end()) {
    family.recentSizes.push_back(sizes);
    if (family.recentSizes.size() > kRecentSizes)
      family.recentSizes.pop_front();
    return;
  }
  Segment copy = derived;
  copy.settle(); // its rows point into the frame's segment, which goes on changing
  SegmentPtr node = add(std::move(copy), false,
                        fmt::format("other sizes or integers than segment {}", base->segment.number));
  if (node->family) // an equal one was there
    return;
  node->family = base->family;
  node->verification = base->verification;
  node->isDerived = true;
  node->derivedFrom = base->segment.number;
  node->base = base;
  node->lastVisit = visits_;
  family.derived.push_back(node);
  dropLeastUsed(family);
}

std::vector<std::string> TraceGraph::takeNews() {
  std::unique_lock lock(mutex_);
  return std::exchange(news_, {});
}

bool TraceGraph::hasLiar(const Segment &segment) const {
  return !liars_.empty() && std::any_of(segment.infos.begin(), segment.infos.end(),
                                        [&](const RowInfo &info) { return liars_.contains(info.facts); });
}

void TraceGraph::refute(const SegmentPtr &node, const OperatorFacts *liar, const std::string &reason) {
  std::unique_lock lock(mutex_);
  node->verification->refutation = reason;
  node->verification->isRefuted = true;
  if (!liar)
    return;
  liars_.insert(liar);
  const std::vector<SegmentPtr> all = all_;
  for (const SegmentPtr &other : all)
    if (hasLiar(other->segment))
      remove(other);
  ++generation_;
}

bool TraceGraph::isLiar(const OperatorFacts &facts) const {
  std::shared_lock lock(mutex_);
  return liars_.contains(&facts);
}

std::string TraceGraph::refutationOf(const SegmentNode &node) const {
  std::shared_lock lock(mutex_);
  return node.verification->refutation;
}

std::vector<SegmentPtr> TraceGraph::insert(Segment segment, std::string reason) {
  std::unique_lock lock(mutex_);
  std::vector<SegmentPtr> pieces;
  while (segment.size() > 0) {
    size_t rows = 0; // up to the last known border
    for (const SegmentPtr &node : starts_[segment.rows[0].op])
      if (node->isCut && node->segment.size() < segment.size() &&
          sameStructure(node->segment, segment, node->segment.size()))
        rows = node->segment.size();
    if (rows == 0) {
      pieces.push_back(addRecorded(std::move(segment), false, reason));
      break;
    }
    pieces.push_back(addRecorded(slice(segment, 0, rows), true, reason));
    segment = slice(segment, rows, segment.size());
  }
  return pieces;
}

void TraceGraph::remove(const SegmentPtr &node) {
  node->isRetired = true;
  std::erase(starts_[node->segment.rows[0].op], node);
  std::erase(all_, node);
  for (const SegmentPtr &other : all_)
    other->next.erase(node.get());
  entries_.erase(node.get());
  if (node->isDerived)
    std::erase(node->family->derived, node);
}

void TraceGraph::cutAll(const SegmentPtr &through, size_t rows) {
  constexpr const char *kReason = "calls went different ways after it";
  std::vector<SegmentPtr> cut;
  for (const SegmentPtr &node : starts_[through->segment.rows[0].op])
    if (node->segment.size() > rows && sameStructure(node->segment, through->segment, rows))
      cut.push_back(node);
  addRecorded(slice(through->segment, 0, rows), true, kReason);
  for (const SegmentPtr &node : cut) {
    remove(node);
    addRecorded(slice(node->segment, 0, rows), true, kReason);
    addRecorded(slice(node->segment, rows, node->segment.size()), false, node->reason);
  }
  ++generation_;
}

void TraceGraph::noteBranch(const SegmentPtr &segment, size_t rows) {
  std::unique_lock lock(mutex_);
  bool isBorder = rows == segment->segment.size() || segment->isRetired;
  if (rows > 0 && !isBorder && ++branches_[structureAfter(segment->segment, rows)] >= 2)
    cutAll(segment, rows);
}

void TraceGraph::noteVisit(const SegmentNode *from, const SegmentNode *to) {
  std::unique_lock lock(mutex_);
  if (to && to->isRetired) // it is not the graph's any more, and may be gone when successors are asked for
    return;
  if (to)
    const_cast<SegmentNode *>(to)->lastVisit = ++visits_;
  ++(from ? const_cast<SegmentNode *>(from)->next : entries_)[to];
}

void TraceGraph::clear() {
  std::unique_lock lock(mutex_);
  for (const SegmentPtr &node : all_)
    node->isRetired = true;
  starts_.clear();
  all_.clear();
  branches_.clear();
  recordings_.clear();
  entries_.clear();
  ++generation_;
}

std::vector<SegmentPtr> TraceGraph::segments() const {
  std::shared_lock lock(mutex_);
  return all_;
}

std::map<const SegmentNode *, uint64_t> TraceGraph::successors(const SegmentNode *node) const {
  std::shared_lock lock(mutex_);
  return node ? node->next : entries_;
}

} // namespace graphopt::capture
