// The legality table of stages, applied to each op.
#include "ir/verifier.h"

#include <algorithm>
#include <unordered_set>

namespace graphopt::ir {

namespace {
class StageChecker {
public:
  explicit StageChecker(Verifier &verifier) : v_(verifier) {}

  void run() {
    walk(v_.graph.body(), [&](const Op &op) { checkOp(op); });
  }

private:
  std::string where() const {
    if (v_.graph.stage == Stage::Captured)
      return fmt::format("stage captured, form {}", toString(v_.graph.form));
    return fmt::format("stage {}", toString(v_.graph.stage));
  }

  void require(const Op &op, unsigned bit, std::string_view what) {
    if (!v_.allows(bit))
      v_.error(op, "is {}, which {} does not allow", what, where());
  }

  void checkOp(const Op &op) {
    const Op *region = op.parent()->owner();
    if (region && op.kind != Op::Kind::Call && op.kind != Op::Kind::Yield && op.kind != Op::Kind::Return)
      v_.error(op, "stands inside a region");
    switch (op.kind) {
    case Op::Kind::Call:
      return checkCall(op);
    case Op::Kind::Group:
      return checkGroup(op);
    case Op::Kind::Update:
      return checkUpdate(op);
    case Op::Kind::Vjp:
      return require(op, kVjps, "a vjp");
    case Op::Kind::Redraw:
      return require(op, kRedraws, "a redraw");
    case Op::Kind::Border:
      return checkBorder(op);
    case Op::Kind::Writeback:
      return require(op, kWritebacks, "a write-back");
    case Op::Kind::Return:
    case Op::Kind::Yield:
      return;
    }
  }

  void checkCall(const Op &op) {
    std::string ns = splitOpName(op.name).ns;
    if (ns == "prim")
      require(op, kPrims, "a prim");
    else if (ns == "plan")
      require(op, kPlanOps, "an op of the plan");
    else
      checkDispatcherCall(op);
  }

  void checkDispatcherCall(const Op &op) {
    if (!v_.allows(kDispatcher))
      return require(op, kDispatcher, "a dispatcher operator");
    const Op *region = op.parent()->owner();
    if (region && region->kind == Op::Kind::Group)
      v_.error(op, "is a dispatcher operator in a group, which holds prims only");
    const OpInfo *info = v_.catalog ? v_.catalog->find(op.name) : nullptr;
    if (v_.graph.isOpaque(op))
      return;
    if (info && info->composite)
      require(op, kComposite, "a composite operator");
    if (isViewOp(op))
      checkView(op);
  }

  static bool isViewOp(const Op &op) {
    bool found = false;
    op.forEachValue([&](const Operand &operand) { found |= operand.mark == Mark::Alias; });
    return found;
  }

  void checkView(const Op &op) {
    const Op *region = op.parent()->owner();
    if (region && region->kind != Op::Kind::Group) {
      require(op, kUpdateChains, "a view in an update");
      return;
    }
    bool onlyReturned = std::all_of(op.results().begin(), op.results().end(), isOnlyReturned);
    if (!v_.allows(kViews) && !onlyReturned)
      v_.error(op, "is a view, which {} allows only to be returned", where());
  }

  /// Every use is a return, or a view that has to pass the same test.
  static bool isOnlyReturned(const Value *value) {
    auto fine = [&](const Op *user) {
      bool viewed = false;
      user->forEachValue([&](const Operand &o) { viewed |= o.value == value && o.mark == Mark::Alias; });
      return user->kind == Op::Kind::Return || viewed;
    };
    return std::all_of(value->users().begin(), value->users().end(), fine);
  }

  void checkGroup(const Op &op) {
    require(op, kGroups, "a group");
    if (!isGroupKind(op.groupKind))
      v_.error(op, "has the unknown kind '{}': see stages.def", op.groupKind);
    if (op.name.empty() || !groups_.insert(op.name).second)
      v_.error(op, "has no name of its own: '{}'", op.name);
  }

  void checkUpdate(const Op &op) {
    if (!v_.graph.isOpaque(op))
      require(op, kUpdates, "an update");
    if (op.results().empty())
      v_.error(op, "has no result");
  }

  void checkBorder(const Op &op) {
    require(op, kBorders, "a border");
    if (op.number != nextBorder_)
      v_.error(op, "#{} is out of order, expected #{}", op.number, nextBorder_);
    nextBorder_ = op.number + 1;
  }

  Verifier &v_;
  std::unordered_set<std::string_view> groups_;
  int nextBorder_ = 0;
};
} // namespace

void Verifier::checkStage() { StageChecker(*this).run(); }

} // namespace graphopt::ir
