// Orders are followed forward from the convolutions; regions are joined where one image, in either order,
// is used by both.
#include "passes/layout_plan.h"

#include "ir/alias.h"
#include "ir/dtype.h"
#include "ir/effects.h"
#include "ir/op_table.h"
#include "passes/channels_last.h"
#include "passes/fixed_sizes.h"
#include "passes/regions.h"

#include <algorithm>
#include <unordered_map>

namespace graphopt::passes {
namespace {

bool mayTakeAnyOrder(std::string_view name, const ir::OpCatalog &catalog) {
  const ir::OpInfo *info = catalog.find(name);
  return info && (info->pointwise || ir::takesAnyOrder(name));
}

/// Of an operator in place, that of the operator without the underscore.
std::string withoutUnderscore(const std::string &name) {
  ir::OpName parts = ir::splitOpName(name);
  if (parts.base.ends_with('_') && !parts.base.ends_with("__"))
    parts.base.pop_back();
  return ir::joinOpName(parts);
}

/// A call whose results are the same numbers whatever the order of its images.
bool isAnyOrderCall(const ir::Op &op, const ir::OpCatalog *catalog) {
  if (op.kind != ir::Op::Kind::Call || !catalog ||
      !(mayTakeAnyOrder(op.name, *catalog) || mayTakeAnyOrder(withoutUnderscore(op.name), *catalog)))
    return false;
  const ir::Effects effects = ir::effectsOf(op, catalog);
  return !effects.random && !effects.hostRead && !effects.ordered;
}

bool isIn(const ir::Block &body, const ir::Value *value) {
  return value->def && value->def->parent() == &body;
}

/// Images are read, or written on a copy as a whole; those made are yielded.
bool isAnyOrderInside(const ir::Op &inner, const ir::Block &body, const ir::OpCatalog *catalog) {
  bool writesCopies = true;
  inner.forEachValue([&](const ir::Operand &operand) {
    if (operand.mark == ir::Mark::Write && isImage(operand.value->type))
      writesCopies &= isIn(body, operand.value) && operand.value->def->isCall("aten.clone");
  });
  return writesCopies && isAnyOrderCall(inner, catalog) &&
         std::ranges::all_of(inner.results(), [&](const ir::Value *result) {
           return !isImage(result->type) || body.terminator()->usesValue(result);
         });
}

/// Batch norm with running statistics, pointwise operators in place.
bool isAnyOrderUpdate(const ir::Op &op, const ir::OpCatalog *catalog) {
  if (op.kind != ir::Op::Kind::Update)
    return false;
  const ir::Block &body = *op.body();
  for (const ir::Operand &yielded : body.terminator()->operands())
    if (!yielded.isValue() || (isImage(yielded.value->type) && !isIn(body, yielded.value)))
      return false;
  return std::ranges::all_of(body, [&](const auto &inner) {
    return inner->kind == ir::Op::Kind::Yield || imagesOf(*inner).empty() ||
           isAnyOrderInside(*inner, body, catalog);
  });
}

class Planner {
public:
  Planner(const ir::Graph &graph, const ir::OpCatalog *catalog, const OrderFacts &facts, Regions wanted)
      : graph_(graph), catalog_(catalog), facts_(facts), wanted_(wanted), sample_(usualSizes(graph.syms)),
        aliases_(graph) {
    graph.returnOp()->forEachValue(
        [&](const ir::Operand &operand) { ++timesReturned_[aliases_.base(operand.value)]; });
  }

  LayoutPlan plan() {
    for (const auto &op : graph_.body())
      if (op->kind == ir::Op::Kind::Update)
        for (const ir::Value *written : overwrittenBy(*op, catalog_))
          overwritten_.insert(written);
    size_t place = 0;
    for (const auto &op : graph_.body())
      visit(*op, place++);
    for (const ir::Value *value : changed_)
      if (isAskedBack(*value))
        regions_[find(value)].moved += bytesOf(*value);
    return choose();
  }

private:
  struct Region {
    int64_t moved = 0, touched = 0; // bytes
    bool hasWork = false;           // something is to be converted
  };

  bool isLast(const ir::Value *value) const {
    return last_.contains(value) || isChannelsLast(value->type, graph_.syms);
  }

  void visit(const ir::Op &op, size_t place) {
    if (!op.computes() || facts_.refusing.contains(place) || takesOverwritten(op))
      return;
    if (const std::optional<Convolution> convolution = convolutionOf(op, catalog_))
      addConvolution(op, *convolution);
    else if (takesAnyOrder(op))
      addTaking(op);
    else
      return;
    if (!facts_.ending.contains(place))
      addResults(op);
  }

  /// A value that the program writes in place later: if a backward is to read it, eager raises an error, and
  /// a conversion would hide that.
  bool takesOverwritten(const ir::Op &op) const {
    return std::ranges::any_of(imagesOf(op), [&](const ir::Value *image) {
      return overwritten_.contains(image) && !isLast(image) && orderMatters(image->type);
    });
  }

  /// What is written in place decides how the new version lies.
  bool takesAnyOrder(const ir::Op &op) const {
    const auto isLastImage = [&](const ir::Value *value) { return !isImage(value->type) || isLast(value); };
    if (isAnyOrderUpdate(op, catalog_))
      return std::ranges::all_of(overwrittenBy(op, catalog_), isLastImage) &&
             std::ranges::any_of(imagesOf(op), isLastImage);
    return isAnyOrderCall(op, catalog_) && !isSharedView(op) &&
           std::ranges::any_of(imagesOf(op), isLastImage);
  }

  /// A view of memory that is returned more than once: views are made of the one that is brought back.
  bool isSharedView(const ir::Op &op) const {
    return std::ranges::any_of(op.results(), [&](const ir::Value *result) {
      const auto times = timesReturned_.find(aliases_.base(result));
      return aliases_.isView(result) && times != timesReturned_.end() && times->second > 1;
    });
  }

  void addConvolution(const ir::Op &op, const Convolution &convolution) {
    const ir::Value &input = *convolution.input, &weight = *convolution.weight;
    const bool isNew = !isChannelsLast(input.type, graph_.syms), converts = !isLast(&weight);
    Work work{&op, isNew || (converts && orderMatters(weight.type)), 0, 0};
    if (isNew && converts && weighed_.insert(&weight).second)
      work.moved = bytesOf(weight);
    if (isNew && convolution.hasManyChannels)
      work.touched = bytesOf(input) + bytesOf(*op.result());
    works_.push_back(work);
    take(op, &input);
    addTo(op);
  }

  void addTaking(const ir::Op &op) {
    for (const ir::Value *image : imagesOf(op))
      take(op, image);
    addTo(op);
  }

  void addTo(const ir::Op &op) {
    taking_.push_back(&op);
    isTaking_.insert(&op);
  }

  void take(const ir::Op &op, const ir::Value *image) {
    if (!isLast(image) && orderMatters(image->type) && entering_.insert(image).second)
      entries_.push_back(image);
    join(&op, image);
  }

  void addResults(const ir::Op &op) {
    for (const ir::Value *result : op.results()) {
      if (!isImage(result->type))
        continue;
      join(result, &op);
      if (!isLast(result) && last_.insert(result).second)
        changed_.push_back(result);
    }
  }

  /// Somebody wants the value as it was recorded.
  bool isAskedBack(const ir::Value &value) const {
    return std::ranges::any_of(value.users(), [&](const ir::Op *user) {
      const ir::Op *region = user->parent()->owner();
      return !isTaking_.contains(region ? region : user);
    });
  }

  /// What it costs to bring the value into another order.
  int64_t bytesOf(const ir::Value &value) const {
    if (!orderMatters(value.type))
      return 0;
    const int64_t elements = ir::evaluate(value.type.numel(), sample_).value_or(0);
    return elements * ir::itemSize(value.type.dtype);
  }

  LayoutPlan choose() {
    for (const ir::Value *entry : entries_)
      regions_[find(entry)].moved += bytesOf(*entry);
    for (const Work &work : works_) {
      Region &region = regions_[find(work.op)];
      region.moved += work.moved;
      region.touched += work.touched;
      region.hasWork |= work.has;
    }
    LayoutPlan plan;
    for (const ir::Op *op : taking_)
      if (isChosen(regions_[find(op)]))
        plan.taking.insert(op);
    for (const Work &work : works_)
      ++(plan.taking.contains(work.op) ? plan.convolutions : plan.convolutionsLeft);
    return plan;
  }

  bool isChosen(const Region &region) const {
    return region.hasWork &&
           (wanted_ == Regions::All || region.moved == 0 || 2 * region.moved < region.touched);
  }

  // ---- regions: sets of operators and values

  const void *find(const void *member) {
    auto [entry, isNew] = leader_.try_emplace(member, member);
    if (entry->second == member)
      return member;
    const void *leader = find(entry->second);
    return leader_[member] = leader;
  }
  void join(const void *a, const void *b) { leader_[find(a)] = find(b); }

  struct Work {
    const ir::Op *op;
    bool has;
    int64_t moved, touched;
  };

  const ir::Graph &graph_;
  const ir::OpCatalog *catalog_;
  const OrderFacts &facts_;
  const Regions wanted_;
  const std::vector<ir::SymValue> sample_;
  const ir::AliasInfo aliases_;
  std::unordered_map<const ir::Value *, int> timesReturned_; // looked up only: by where the memory begins
  std::unordered_set<const ir::Value *> last_, entering_, weighed_, overwritten_; // membership only
  std::unordered_set<const ir::Op *> isTaking_;                                   // membership only
  std::vector<const ir::Value *> changed_, entries_;
  std::vector<const ir::Op *> taking_;
  std::vector<Work> works_;
  std::unordered_map<const void *, const void *> leader_; // looked up only
  std::unordered_map<const void *, Region> regions_;      // by leader
};

} // namespace

std::vector<ir::Value *> imagesOf(const ir::Op &op) {
  std::vector<ir::Value *> images;
  op.forEachValue([&](const ir::Operand &operand) {
    if (isImage(operand.value->type) && std::ranges::find(images, operand.value) == images.end())
      images.push_back(operand.value);
  });
  return images;
}

LayoutPlan planLayout(const ir::Graph &graph, const ir::OpCatalog *catalog, const OrderFacts &facts,
                      Regions regions) {
  return Planner(graph, catalog, facts, regions).plan();
}

} // namespace graphopt::passes
