// The thread state that operators run under: grad mode, inference mode, autocast; and the process's numeric
// switches.
#pragma once
#include "ir/graph.h"
#include "runtime/plan.h"

#include <c10/core/Device.h>
#include <memory>

namespace graphopt::runtime {

/// The state that the text of a graph asks for at an operator: what it does not say is the default (grad on,
/// no inference, no autocast; from the lowered stage on below autograd, unless the operator is opaque).
/// Throws a user error for a word it does not know.
Ambient ambientOf(const ir::Graph &graph, const ir::OpState &state);

/// Switches the thread between ambient states and gives it back as it was. Between switches it costs nothing.
class AmbientScope {
public:
  /// `device` is the one whose autocast the states mean.
  explicit AmbientScope(c10::DeviceType device);
  ~AmbientScope(); ///< restores, and clears autocast's cast cache as the end of eager's outermost region does
  AmbientScope(const AmbientScope &) = delete;
  AmbientScope &operator=(const AmbientScope &) = delete;
  /// Makes the thread's state `ambient`; nothing happens when it is so already. `belowAutograd` leaves out
  /// the autograd layers: for operators none of whose tensors has or gets history.
  void enter(const Ambient &ambient, bool belowAutograd = false);
  /// Changes that alone, in a few nanoseconds: plans may switch at every step. Needs a state entered before.
  void setBelowAutograd(bool belowAutograd);

private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

/// Sets the switches a graph's header asks for (deterministic, matmul) and restores them at the end. They
/// belong to the process: what is so already is not touched.
class SettingsScope {
public:
  explicit SettingsScope(const Settings &settings);
  ~SettingsScope();
  SettingsScope(const SettingsScope &) = delete;
  SettingsScope &operator=(const SettingsScope &) = delete;

private:
  Settings previous_;
};

/// True when each word is one that SettingsScope knows, or empty.
bool isValid(const Settings &settings);

/// The switches of a graph's header; words of other meanings are left to others.
Settings settingsOf(const ir::Graph &graph);

} // namespace graphopt::runtime
