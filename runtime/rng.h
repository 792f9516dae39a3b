// The state of random generators, as values of graphs: what a redraw begins with.
//
// Registers graphopt::rng_state(Device device) -> Tensor and graphopt::set_rng_state(Tensor state, Device
// device) -> () with the dispatcher.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <mutex>
#include <utility>
#include <vector>

namespace graphopt::runtime {

/// The state of the device's default generator as at::Generator::get_state gives it: u8 on the CPU, 5,056
/// bytes for the CPU's generator (Mersenne twister) and 16 for a GPU's (Philox: seed and offset). Draws that
/// others have put off are none of it.
at::Tensor rngState(c10::Device device);
void setRngState(const at::Tensor &state, c10::Device device);

/// Draws within leave the devices' default generators as they were. Those belong to the process: a thread
/// that draws without a scope meanwhile draws numbers that are drawn within, and takes some of them away.
class RngScope {
public:
  /// Scopes of several threads that Wait come one after the other. Where operators of others run within,
  /// which may wait for another thread themselves, a scope has to GoOn.
  enum class Others { Wait, GoOn };
  RngScope(const std::vector<c10::Device> &devices, Others others);
  ~RngScope();
  RngScope(const RngScope &) = delete;
  RngScope &operator=(const RngScope &) = delete;

private:
  std::unique_lock<std::recursive_mutex> lock_;
  std::vector<std::pair<c10::Device, at::Tensor>> before_;
};

} // namespace graphopt::runtime
