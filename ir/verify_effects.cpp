// Marks, writes, updates, write-backs and returned views.
#include "ir/verifier.h"

#include "ir/effects.h"

#include <algorithm>

namespace graphopt::ir {

namespace {
bool isImmutable(const Value &value) {
  return value.kind == Value::Kind::Const || value.kind == Value::Kind::HostVal;
}

bool sameShape(const Type &a, const Type &b, const std::vector<Sym> &syms) {
  auto same = [&](const Dim &x, const Dim &y) { return provablyEqual(x, y, syms); };
  return a.kind == b.kind && a.dtype == b.dtype &&
         std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(), same);
}

/// Marks of an op's own operands, lists flattened: whether a position carries &mut.
bool isMarked(const Operand &operand) {
  if (operand.kind == Operand::Kind::List)
    return std::all_of(operand.items.begin(), operand.items.end(), isMarked);
  return operand.kind == Operand::Kind::None || operand.mark == Mark::Write;
}

bool hasMark(const Operand &operand) {
  return operand.mark == Mark::Write || std::any_of(operand.items.begin(), operand.items.end(), hasMark);
}

class EffectChecker {
public:
  EffectChecker(Verifier &verifier, const AliasInfo &aliases) : v_(verifier), aliases_(aliases) {}

  void run() {
    walk(v_.graph.body(), [&](const Op &op) {
      checkMarks(op);
      if (op.kind == Op::Kind::Call)
        checkSchemaWrites(op);
      if (op.kind == Op::Kind::Update)
        checkUpdate(op);
      if (op.body() && op.kind != Op::Kind::Vjp)
        checkYieldedViews(op);
      if (op.kind == Op::Kind::Return)
        checkReturnedViews(op);
    });
    checkWritebacks();
  }

private:
  // ---- marks

  void checkMarks(const Op &op) {
    bool anyAlias = false;
    op.forEachValue([&](const Operand &operand) {
      if (operand.mark == Mark::None)
        return;
      anyAlias |= operand.mark == Mark::Alias;
      checkMark(op, operand);
    });
    auto isTensor = [](const Value *value) { return value->type.isTensor(); };
    bool anyTensor = std::any_of(op.results().begin(), op.results().end(), isTensor);
    if (op.kind == Op::Kind::Call && anyAlias && !anyTensor)
      v_.error(op, "has & but no tensor result that could alias the operand");
  }

  void checkMark(const Op &op, const Operand &operand) {
    bool mayMark = op.kind == Op::Kind::Call || (op.kind == Op::Kind::Return && operand.mark == Mark::Alias);
    const char *text = operand.mark == Mark::Write ? "&mut" : "&";
    if (!mayMark)
      v_.error(op, operand, "marks '{}' with {}", nameOf(*operand.value), text);
    else if (op.name.starts_with("prim."))
      v_.error(op, operand, "marks '{}' with {}, but prims neither alias nor write", nameOf(*operand.value),
               text);
    else if (!operand.value->type.isTensor())
      v_.error(op, operand, "marks '{}' with {}, which is {} and no tensor", nameOf(*operand.value), text,
               toString(operand.value->type));
    else if (operand.mark == Mark::Write)
      checkWrite(op, operand);
  }

  void checkWrite(const Op &op, const Operand &operand) {
    const Value &base = *aliases_.base(operand.value);
    if (isImmutable(base))
      v_.error(op, operand, "writes '{}', a {}", nameOf(base), toString(base.kind));
    if (v_.allows(kWrites))
      return;
    const Op *region = op.parent()->owner();
    if (!region || region->kind == Op::Kind::Group)
      v_.error(op, operand, "writes '{}' outside an update, which {} graphs do not", nameOf(*operand.value),
               stageText());
    else if (!isMadeIn(*region, base))
      v_.error(op, operand, "writes '{}', expected a value made in the update or a view of one",
               nameOf(*operand.value));
  }

  std::string stageText() const {
    if (v_.graph.stage != Stage::Captured)
      return std::string(toString(v_.graph.stage));
    return fmt::format("captured {}", toString(v_.graph.form));
  }

  static bool isMadeIn(const Op &region, const Value &value) {
    return value.def && value.def->parent() == region.body();
  }

  /// What the operator writes by its schema or by aten.def, and what the marks say.
  void checkSchemaWrites(const Op &op) {
    const OpInfo *info = v_.catalog ? v_.catalog->find(op.name) : nullptr;
    std::vector<size_t> hidden = hiddenWrites(op);
    for (size_t i = 0; i < op.operands().size(); ++i) {
      const Operand &operand = op.operands()[i];
      bool bySchema = info && schemaWrites(*info, i);
      bool byTable = std::find(hidden.begin(), hidden.end(), i) != hidden.end();
      if ((bySchema || (byTable && !v_.allows(kWrites))) && !isMarked(operand))
        v_.error(op, operand, "writes operand #{}, which has no &mut", i);
      if (info && !bySchema && !byTable && hasMark(operand))
        v_.error(op, operand, "does not write operand #{}, which has &mut", i);
    }
  }

  static bool schemaWrites(const OpInfo &info, size_t position) {
    for (const ArgInfo &arg : info.args)
      if (arg.written && info.operandIndex(arg.name) == position)
        return true;
    return false;
  }

  // ---- regions

  void checkUpdate(const Op &op) {
    for (const Operand &given : op.body()->terminator()->operands()) {
      const Value *base = aliases_.base(given.value);
      auto likeCapture = [&](const Operand &capture) {
        return sameShape(capture.value->type, given.value->type, v_.graph.syms);
      };
      bool written = std::any_of(op.body()->begin(), op.body()->end(),
                                 [&](const auto &inner) { return writesFamilyOf(*inner, base); });
      if (written && std::any_of(op.operands().begin(), op.operands().end(), likeCapture))
        return;
    }
    v_.error(op, "yields no value that it writes with dtype and sizes of a capture");
  }

  bool writesFamilyOf(const Op &op, const Value *base) const {
    bool found = false;
    op.forEachValue([&](const Operand &operand) {
      found |= operand.mark == Mark::Write && aliases_.base(operand.value) == base;
    });
    return found;
  }

  void checkYieldedViews(const Op &region) {
    const Op &yield = *region.body()->terminator();
    for (const Operand &operand : yield.operands()) {
      const Value &base = *aliases_.base(operand.value);
      if (!isMadeIn(region, base))
        v_.error(yield, operand, "gives '{}', a view of the capture '{}'", nameOf(*operand.value),
                 nameOf(base));
    }
  }

  // ---- the end of the graph

  void checkReturnedViews(const Op &op) {
    for (const Operand &operand : op.operands())
      if (operand.mark == Mark::Alias && !operand.value->isDeclared() && !aliases_.isView(operand.value))
        v_.error(op, operand, "returns '{}' with &, which is neither a declaration nor a view",
                 nameOf(*operand.value));
  }

  void checkWritebacks() {
    bool ending = false;
    for (const auto &op : v_.graph.body()) {
      if (op->kind == Op::Kind::Writeback)
        checkWriteback(*op);
      else if (ending && op->kind != Op::Kind::Return)
        v_.error(*op, "follows a write-back, expected all computation before them");
      ending |= op->kind == Op::Kind::Writeback;
    }
  }

  void checkWriteback(const Op &op) {
    auto isPlain = [](const Operand &operand) { return operand.kind == Operand::Kind::Value; };
    if (op.operands().size() != 2 || !std::all_of(op.operands().begin(), op.operands().end(), isPlain)) {
      v_.error(op, "has other operands than a target and a source");
      return;
    }
    const Operand &source = op.operands()[1];
    const Value &target = *op.operands()[0].value;
    if (!target.isDeclared() || isImmutable(target) || !target.type.isTensor())
      v_.error(op, op.operands()[0], "has the target '{}', expected a declared tensor that may be written",
               nameOf(target));
    else if (std::find(written_.begin(), written_.end(), &target) != written_.end())
      v_.error(op, op.operands()[0], "writes '{}' a second time", nameOf(target));
    if (!sameShape(target.type, source.value->type, v_.graph.syms))
      v_.error(op, source, "writes {} to '{}' of type {}", toString(source.value->type), nameOf(target),
               toString(target.type));
    for (const Value *earlier : written_)
      if (aliases_.mayAlias(source.value, earlier))
        v_.error(op, source, "reads '{}', which an earlier write-back to '{}' has changed",
                 nameOf(*source.value), nameOf(*earlier));
    written_.push_back(&target);
  }

  Verifier &v_;
  const AliasInfo &aliases_;
  std::vector<const Value *> written_; // targets so far
};
} // namespace

void Verifier::checkEffects(const AliasInfo &aliases) { EffectChecker(*this, aliases).run(); }

} // namespace graphopt::ir
