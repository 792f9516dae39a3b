// Names, definitions before uses, and the shape of regions: what every other check and the text form rely on.
#include "ir/verifier.h"

#include "ir/effects.h"

#include <algorithm>
#include <unordered_set>

namespace graphopt::ir {

namespace {
using Visible = std::unordered_set<const Value *>;

class StructureChecker {
public:
  explicit StructureChecker(Verifier &verifier) : v_(verifier) {}

  void run() {
    Visible visible;
    for (const Value *value : v_.graph.declarations()) {
      checkName(*value);
      visible.insert(value);
    }
    checkBlock(v_.graph.body(), visible);
    const Op *end = v_.graph.returnOp();
    if (!end || end->kind != Op::Kind::Return)
      v_.error(Loc{}, fmt::format("graph '@{}' has no return at its end", v_.graph.name));
  }

private:
  void checkName(const Value &value) {
    if (value.name.empty())
      v_.error(value.loc, "a value has no name");
    else if (!names_.insert(value.name).second)
      v_.error(value, "is defined twice");
  }

  void checkBlock(const Block &block, Visible visible) {
    for (const auto &op : block) {
      checkUses(*op, visible);
      checkPlace(*op, block);
      if (op->isRegion())
        checkRegion(*op);
      for (const Value *result : op->results()) {
        checkName(*result);
        visible.insert(result);
      }
    }
  }

  void checkUses(const Op &op, const Visible &visible) {
    bool inRegion = op.parent()->owner() != nullptr;
    op.forEachValue([&](const Operand &operand) {
      if (visible.contains(operand.value))
        return;
      v_.error(op, operand, "uses '{}', which is {}", nameOf(*operand.value),
               inRegion ? "neither defined before it in the region nor captured" : "not defined before it")
          .notes.push_back({operand.value->loc, fmt::format("'{}' is defined here", nameOf(*operand.value))});
    });
    if (op.state >= v_.graph.states.size())
      v_.error(op, "has ambient state {}, but the graph has {}", op.state, v_.graph.states.size());
  }

  /// Returns and yields stand last, each in its own kind of block; bodies belong to regions.
  void checkPlace(const Op &op, const Block &block) {
    bool inRegion = block.owner() != nullptr;
    bool ends = op.kind == Op::Kind::Return || op.kind == Op::Kind::Yield;
    if (ends && (op.kind == Op::Kind::Yield) != inRegion)
      v_.error(op, "{}",
               inRegion ? "stands in a region, which ends with a yield" : "stands outside a region");
    else if (ends && block.terminator() != &op)
      v_.error(op, "is not the last of its block");
    if (op.kind == Op::Kind::Return)
      checkReturned(op);
    if (op.body() && !op.isRegion())
      v_.error(op, "has a body");
    if (ends && !op.results().empty())
      v_.error(op, "has results");
  }

  void checkReturned(const Op &op) {
    for (const Operand &operand : op.operands())
      if (operand.kind != Operand::Kind::Value && operand.kind != Operand::Kind::None)
        v_.error(op, operand, "returns a {}, expected values and none",
                 operand.kind == Operand::Kind::List ? "list" : "literal");
  }

  void checkRegion(const Op &op) {
    Visible captures = checkCaptures(op);
    if (!op.body()) {
      v_.error(op, "has no body");
      return;
    }
    checkBlock(*op.body(), captures);
    const Op *yield = op.body()->terminator();
    if (!yield || yield->kind != Op::Kind::Yield)
      v_.error(op, "has no yield at the end of its body");
    else
      checkYield(op, *yield, captures);
  }

  Visible checkCaptures(const Op &op) {
    Visible captures;
    for (const Operand &operand : op.operands()) {
      if (operand.kind != Operand::Kind::Value || operand.mark != Mark::None)
        v_.error(op, operand, "captures something else than a plain value");
      if (operand.kind != Operand::Kind::Value)
        continue;
      if (!captures.insert(operand.value).second)
        v_.error(op, operand, "captures '{}' twice", nameOf(*operand.value));
      else if (op.body() && !isUsedIn(*op.body(), operand.value))
        v_.error(op, operand, "captures '{}', which its body does not use", nameOf(*operand.value));
    }
    return captures;
  }

  static bool isUsedIn(const Block &body, const Value *value) {
    bool found = false;
    walk(body, [&](const Op &op) { found |= op.usesValue(value); });
    return found;
  }

  static size_t itemsOf(const Op &yield, size_t list) { return yield.operands()[list].items.size(); }

  void checkVjpYield(const Op &region, const Op &yield) {
    const std::vector<Operand> &lists = yield.operands();
    const bool areLists = lists.size() == 3 && std::all_of(lists.begin(), lists.end(), [](const Operand &o) {
                            return o.kind == Operand::Kind::List;
                          });
    if (!areLists || itemsOf(yield, 0) != itemsOf(yield, 1) || itemsOf(yield, 2) != region.results().size())
      v_.error(yield, "does not give outputs, as many cotangents, and a value for each of the {} results",
               region.results().size());
  }

  void checkYield(const Op &region, const Op &yield, const Visible &captures) {
    if (region.kind == Op::Kind::Vjp)
      return checkVjpYield(region, yield);
    if (region.kind == Op::Kind::Redraw && !region.body()->ops().front()->isCall(kSetRngState))
      v_.error(region, "does not begin with {}", kSetRngState);
    if (yield.operands().size() != region.results().size()) {
      v_.error(yield, "gives {} values, but its {} has {} results", yield.operands().size(), v_.label(region),
               region.results().size());
      return;
    }
    for (size_t i = 0; i < yield.operands().size(); ++i) {
      const Operand &operand = yield.operands()[i];
      const Value &result = *region.result(i);
      if (operand.kind != Operand::Kind::Value || operand.mark != Mark::None)
        v_.error(yield, operand, "gives something else than a plain value");
      else if (captures.contains(operand.value))
        v_.error(yield, operand, "gives the capture '{}' back, expected a value made in the region",
                 nameOf(*operand.value));
      else if (!(operand.value->type == result.type))
        v_.error(yield, operand, "gives '{}' of type {}, but result '{}' is {}", nameOf(*operand.value),
                 toString(operand.value->type), nameOf(result), toString(result.type));
    }
  }

  Verifier &v_;
  std::unordered_set<std::string_view> names_;
};
} // namespace

void Verifier::checkStructure() { StructureChecker(*this).run(); }

} // namespace graphopt::ir
