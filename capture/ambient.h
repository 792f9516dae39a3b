// The thread's and the process's state that decides what operators do beside their arguments.
#pragma once
#include "capture/trace.h"

namespace graphopt::capture {

/// The thread's state now; autocast is that of `device`.
AmbientState ambientNow(c10::DeviceType device);
/// As text, absolute: what is not said is the default (grad on, no inference mode, no autocast).
std::vector<ir::NamedAttr> ambientWords(const AmbientState &state);

/// The process's switches, as a graph's header says them.
struct ProcessState {
  std::string deterministic; // off, warn, on
  std::string matmul;        // highest, high, medium
  bool operator==(const ProcessState &) const = default;
};
ProcessState processState();

/// Words of the guards on the state at entry.
std::string onOff(bool value);
std::string autocastWord(c10::DeviceType device); // off, or the dtype
std::string defaultDtypeWord();

} // namespace graphopt::capture
