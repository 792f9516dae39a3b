// The thread's and the process's state that decides what operators do beside their arguments.
#pragma once
#include "capture/trace.h"

namespace graphopt::capture {

/// The thread's state now; autocast is that of `device`.
AmbientState ambientNow(c10::DeviceType device);
/// As text, absolute: what is not said is the default (grad on, no inference mode, no autocast).
std::vector<ir::NamedAttr> ambientWords(const AmbientState &state);

/// The process's switches: two that a graph's header says, and those of LibTorch's backends that choose
/// kernels.
struct ProcessState {
  std::string deterministic;  // off, warn, on
  std::string matmul;         // highest, high, medium, or the precisions that no such word says
  std::vector<bool> switches; // attention's and cuDNN's
  bool operator==(const ProcessState &) const = default;
};
ProcessState processState();

/// The switches that matter to the graph, by name with on or off as in `state`: attention's where it may
/// attend, cuDNN's where it runs on CUDA.
std::vector<std::pair<std::string_view, std::string>> switchesFor(const ir::Graph &graph,
                                                                  const ProcessState &state);

/// Words of the guards on the state at entry.
std::string onOff(bool value);
std::string autocastWord(c10::DeviceType device); // off, or the dtype
std::string defaultDtypeWord();
std::string deterministicWord();
std::string matmulWord();
std::string switchWord(std::string_view name); // of a switch by its name

} // namespace graphopt::capture
