// Where traps make their tensors: the CPU, or the device that GRAPHOPT_TRAP_DEVICE names.
//
// The programs of the traps name no device. On another device than the CPU, factories that are not told where
// to make a tensor make it there; a trap that cannot run there (it reads memory through pointers, or mixes
// devices) is skipped.
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace graphopt::soundness {

/// The device of traps.
c10::Device trapDevice();

/// Thrown by a trap that cannot run on the device.
struct NotHere {
  std::string reason;
};

/// While it lives, factories on this thread make tensors on the device of traps. Nothing on the CPU.
class DeviceScope {
public:
  DeviceScope();
  ~DeviceScope();
  DeviceScope(const DeviceScope &) = delete;
  DeviceScope &operator=(const DeviceScope &) = delete;

private:
  const bool before_;
};

} // namespace graphopt::soundness
