// Follows, operator by operator, which storages hold nothing but sizes and constants.
#include "capture/provenance.h"

namespace graphopt::capture {

Provenance::Provenance(const Trace &trace) : trace_(trace), known_(trace.families.size(), false) {
  for (size_t i = 0; i < known_.size(); ++i) {
    ir::Value::Kind kind = trace.values[trace.families[i].base()].kind;
    known_[i] = kind == ir::Value::Kind::HostVal || kind == ir::Value::Kind::Const;
  }
}

bool Provenance::areKnown(const std::vector<TraceOperand> &operands) const {
  for (const TraceOperand &operand : operands) {
    if (!areKnown(operand.items))
      return false;
    if (operand.value != kNone && !known_[trace_.values[operand.value].family])
      return false;
  }
  return true;
}

bool Provenance::isKnown(const TraceCall &call) const { return areKnown(call.operands); }

void Provenance::advance(const TraceCall &call, const ir::Effects &effects,
                         const std::vector<FamilyId> &hiddenWrites) {
  // Memory without contents counts as known: operators fill it, and what the host filled is a const.
  bool known = isKnown(call) && !effects.random && !call.facts->isRandom && !effects.ordered;
  for (ValueId id : call.results) {
    const TraceValue &value = trace_.values[id];
    if (value.family != kNone && trace_.families[value.family].base() == id)
      known_[value.family] = known;
  }
  for (const auto *writes : {&call.writes, &hiddenWrites})
    for (FamilyId family : *writes)
      known_[family] = known_[family] && known;
}

} // namespace graphopt::capture
