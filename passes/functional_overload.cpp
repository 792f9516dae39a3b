// x.op_(y) on a copy of x  =>  op(x, y), when all of this holds:
//
//   form     the region is clones, one in-place call on them, and a yield of the clones: no view in between
//   schema   the name without '_' is an operator with the same arguments that writes nothing and returns new
//            tensors
//   dtype    promotion ends at the written dtype: other operands have it, or are of a lower kind (in place
//            f32 += f64 stays f32, the functional one gives f64)
//   layout   all is contiguous, or the operator is pointwise and all operands have the very same strides and
//            some elements (of none, pointwise operators make contiguous results)
//   history  the write ran with gradients on, or nothing has a history: under no_grad the update keeps that
//            of x; and the derivatives are the same
//
// rules/updates.def lists operators that differ in other ways.
#include "passes/functional_overload.h"

#include "ir/effects.h"
#include "passes/density.h"

#include <algorithm>
#include <string_view>

namespace graphopt::passes {
namespace {

enum class Namesake { Same, Contiguous, OtherDerivative, Other };

/// How the functional operator relates to the one in place, by the latter's base name.
Namesake namesakeOf(std::string_view base) {
  static constexpr std::pair<std::string_view, Namesake> kExceptions[] = {
#define STAYS(name, why) {name, Namesake::Other},
#define DERIVED(name) {name, Namesake::OtherDerivative},
#define CONTIGUOUS(name) {name, Namesake::Contiguous},
#include "passes/rules/updates.def"
#undef STAYS
#undef DERIVED
#undef CONTIGUOUS
  };
  for (const auto &[name, namesake] : kExceptions)
    if (name == base)
      return namesake;
  return Namesake::Same;
}

/// The parts of a region without views.
struct Region {
  const ir::Op *write = nullptr;
  std::vector<const ir::Value *> copies; // as yielded
  std::vector<ir::Value *> sources;      // what they are clones of
};

std::optional<Region> regionOf(const ir::Op &update) {
  Region region;
  for (const ir::Op *op : update.body()->ops()) {
    if (op->isCall("aten.clone") && op->attrs.empty() && !region.write) {
      region.copies.push_back(op->result());
      region.sources.push_back(op->operands()[0].value);
    } else if (op->kind == ir::Op::Kind::Call && !region.write && op->results().empty()) {
      region.write = op;
    } else if (op->kind != ir::Op::Kind::Yield) {
      return std::nullopt;
    }
  }
  const ir::Op *yield = update.body()->terminator();
  if (!region.write || !yield || yield->operands().size() != region.copies.size())
    return std::nullopt;
  for (size_t i = 0; i < region.copies.size(); ++i)
    if (yield->operands()[i].value != region.copies[i])
      return std::nullopt;
  return region;
}

/// The first operand, one tensor or a list, is all that is written, in the order of the yield.
bool writesFirstOperandOnly(const Region &region) {
  std::vector<const ir::Value *> first, written;
  const auto &operands = region.write->operands();
  if (operands.empty())
    return false;
  auto note = [&](const ir::Operand &operand) { first.push_back(operand.value); };
  if (operands[0].isValue())
    note(operands[0]);
  for (const ir::Operand &item : operands[0].items)
    note(item);
  region.write->forEachValue([&](const ir::Operand &operand) {
    if (operand.mark == ir::Mark::Write)
      written.push_back(operand.value);
  });
  return first == region.copies && written == region.copies;
}

std::string functionalName(std::string_view irName) {
  ir::OpName name = ir::splitOpName(irName);
  const bool isInPlace = name.base.ends_with('_') && !name.base.ends_with("__");
  if (!isInPlace || namesakeOf(name.base) == Namesake::Other)
    return "";
  name.base.pop_back();
  return ir::joinOpName(name);
}

/// Same arguments in the same places, nothing written, new tensors returned.
bool sameSchema(const ir::OpInfo &inPlace, const ir::OpInfo &functional) {
  if (inPlace.args.size() != functional.args.size() || functional.returns.size() != 1)
    return false;
  for (size_t i = 0; i < inPlace.args.size(); ++i) {
    const ir::ArgInfo &a = inPlace.args[i], &b = functional.args[i];
    if (a.name != b.name || a.role != b.role || b.written || a.dflt != b.dflt)
      return false;
  }
  const ir::ReturnInfo &result = functional.returns[0];
  return result.aliasSet.empty() && (result.isTensor || result.isTensorList) && !functional.random;
}

int kindRank(ir::DType dtype) {
  if (dtype == ir::DType::Bool)
    return 0;
  if (ir::isInteger(dtype))
    return 1;
  return ir::isFloating(dtype) ? 2 : 3;
}

/// Promotion of `written` with `other` gives the written dtype.
bool keepsDtype(const ir::Type &written, const ir::Type &other) {
  if (other.dtype == written.dtype && !other.wrapped)
    return true;
  if (other.wrapped)
    return kindRank(other.dtype) <= kindRank(written.dtype);
  // f32 with i64 gives f32; c64 with f64 would give c128, and i32 with i64 gives i64
  return kindRank(other.dtype) < std::min(kindRank(written.dtype), 2);
}

bool keepsLayout(const ir::Type &written, const ir::Type &other, bool keepsStrides) {
  if (written.device != other.device && other.rank() > 0)
    return false;
  if (!written.strides && !other.strides)
    return true;
  return keepsStrides &&
         (other.rank() == 0 || (other.sizes == written.sizes && other.strides == written.strides));
}

bool hasElements(const ir::Type &type, const std::vector<ir::Sym> &syms) {
  return std::all_of(type.sizes.begin(), type.sizes.end(),
                     [&](const ir::Dim &size) { return ir::rangeOf(size, syms).lo > 0; });
}

/// `keepsStrides`: of operands that share them.
bool keepsTypes(const Region &region, const ir::Graph &graph, bool keepsStrides) {
  bool keeps = true;
  for (const ir::Value *source : region.sources) {
    const ir::Type &written = source->type;
    keeps &= !written.wrapped && densityOf(written, graph.syms) == Density::Dense &&
             (!written.strides || (keepsStrides && hasElements(written, graph.syms)));
  }
  const ir::Type &written = region.sources[0]->type;
  region.write->forEachValue([&](const ir::Operand &operand) {
    const ir::Type &type = operand.value->type;
    keeps &= type.isTensor() && keepsDtype(written, type) && !type.conj && !type.neg;
    if (region.sources.size() == 1)
      keeps &= keepsLayout(written, type, keepsStrides);
    else
      keeps &= type.dtype == written.dtype && !type.strides && type.device == written.device;
  });
  return keeps;
}

std::vector<ir::Operand> onSources(std::vector<ir::Operand> operands, const Region &region) {
  for (ir::Operand &operand : operands) {
    operand.items = onSources(std::move(operand.items), region);
    operand.mark = ir::Mark::None;
    for (size_t i = 0; i < region.copies.size(); ++i)
      if (operand.value == region.copies[i])
        operand.value = region.sources[i];
  }
  return operands;
}

bool isBelowAutograd(const ir::Graph &graph) { return graph.stage != ir::Stage::Captured; }

} // namespace

std::optional<FunctionalCall> functionalCall(const ir::Op &update, const ir::Graph &graph,
                                             bool historyMatters, const ir::OpCatalog *catalog) {
  if (!catalog || ir::effectsOf(update, catalog).random)
    return std::nullopt;
  const std::optional<Region> region = regionOf(update);
  if (!region || !writesFirstOperandOnly(*region))
    return std::nullopt;
  const ir::Op &write = *region->write;
  const std::string name = functionalName(write.name);
  const ir::OpInfo *inPlace = catalog->find(write.name);
  const ir::OpInfo *functional = name.empty() ? nullptr : catalog->find(name);
  if (!inPlace || !functional || !sameSchema(*inPlace, *functional))
    return std::nullopt;
  if (functional->composite && isBelowAutograd(graph))
    return std::nullopt;
  const auto &ambient = graph.states[write.state].ambient;
  const bool gradOff = std::any_of(ambient.begin(), ambient.end(), [](const ir::NamedAttr &a) {
    return a.name == "grad" && a.value.isWord("off");
  });
  const Namesake namesake = namesakeOf(ir::splitOpName(write.name).base);
  const bool keepsStrides = functional->pointwise && namesake != Namesake::Contiguous;
  const bool hasOtherPast = gradOff || (namesake == Namesake::OtherDerivative && !isBelowAutograd(graph));
  if ((hasOtherPast && historyMatters) || !keepsTypes(*region, graph, keepsStrides))
    return std::nullopt;
  return FunctionalCall{name, onSources(write.operands(), *region), write.attrs, write.state};
}

} // namespace graphopt::passes
