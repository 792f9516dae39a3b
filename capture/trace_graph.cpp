// Shared by all threads that call the callable; segments do not change once they are in, so that a call in
// flight can go on with one that was cut meanwhile.
#include "capture/trace_graph.h"

#include <algorithm>
#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

uint64_t hashAfter(const Segment &segment, size_t rows) {
  return rows == segment.size() ? segment.hash : segment.infos[rows].prefixHash;
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

bool TraceGraph::mayRecord(const SegmentNode *after, const void *op) {
  std::unique_lock lock(mutex_);
  size_t &count = recordings_[{after, op}];
  if (count >= maxStarts_ || all_.size() >= maxSegments_)
    return false;
  ++count;
  return true;
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
  node->segment = std::move(segment);
  node->segment.settle(); // the rows point into the infos
  node->segment.number = numbers_++;
  node->isCut = isCut;
  node->reason = std::move(reason);
  same.push_back(node);
  all_.push_back(node);
  return node;
}

std::vector<SegmentPtr> TraceGraph::insert(Segment segment, std::string reason) {
  std::unique_lock lock(mutex_);
  std::vector<SegmentPtr> pieces;
  while (segment.size() > 0) {
    const SegmentPtr *border = nullptr;
    for (const SegmentPtr &node : starts_[segment.rows[0].op])
      if (node->isCut && node->segment.size() < segment.size() &&
          samePrefix(node->segment, segment, node->segment.size()))
        border = &node;
    if (!border) {
      pieces.push_back(add(std::move(segment), false, reason));
      break;
    }
    pieces.push_back(*border);
    segment = slice(segment, (*border)->segment.size(), segment.size());
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
  std::erase_if(recordings_, [&](const auto &entry) { return entry.first.first == node.get(); });
}

void TraceGraph::cutAll(const SegmentPtr &through, size_t rows) {
  std::vector<SegmentPtr> cut;
  for (const SegmentPtr &node : starts_[through->segment.rows[0].op])
    if (node->segment.size() > rows && samePrefix(node->segment, through->segment, rows))
      cut.push_back(node);
  add(slice(through->segment, 0, rows), true, "calls went different ways after it");
  for (const SegmentPtr &node : cut) {
    remove(node);
    add(slice(node->segment, rows, node->segment.size()), false, node->reason);
  }
  ++generation_;
}

void TraceGraph::noteBranch(const SegmentPtr &segment, size_t rows) {
  std::unique_lock lock(mutex_);
  bool isBorder = rows == segment->segment.size() || segment->isRetired;
  if (rows > 0 && !isBorder && ++branches_[hashAfter(segment->segment, rows)] >= 2)
    cutAll(segment, rows);
}

void TraceGraph::noteVisit(const SegmentNode *from, const SegmentNode *to) {
  std::unique_lock lock(mutex_);
  if (to && to->isRetired) // it is not the graph's any more, and may be gone when successors are asked for
    return;
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
