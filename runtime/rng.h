// The state of random generators, as values of graphs: what a redraw begins with.
//
// Registers graphopt::rng_state(Device device) -> Tensor and graphopt::set_rng_state(Tensor state, Device
// device) -> () with the dispatcher.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace graphopt::runtime {

/// The state of the device's default generator as at::Generator::get_state gives it: u8 on the CPU, 5,056
/// bytes for the CPU's generator (Mersenne twister) and 16 for a GPU's (Philox: seed and offset). Draws that
/// others have put off are none of it.
at::Tensor rngState(c10::Device device);
void setRngState(const at::Tensor &state, c10::Device device);

/// Draws within leave the device's default generator as it was. It belongs to the process: another thread
/// that draws meanwhile would draw the same numbers.
class RngScope {
public:
  explicit RngScope(c10::Device device) : device_(device), before_(rngState(device)) {}
  ~RngScope();
  RngScope(const RngScope &) = delete;
  RngScope &operator=(const RngScope &) = delete;

private:
  const c10::Device device_;
  const at::Tensor before_;
};

} // namespace graphopt::runtime
