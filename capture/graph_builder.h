// From the rows of a recording to the captured graph in raw form.
#pragma once
#include "capture/ambient.h"
#include "capture/capture.h"
#include "capture/trace.h"

namespace graphopt::capture {

/// What is known beside the trace when the program has returned.
struct Recorded {
  Trace trace;
  c10::Device device = c10::kCPU;
  ProcessState process; // at entry
  std::vector<std::string> argumentNames;
  std::vector<Structure> arguments;
  std::vector<ValueId> inputs; // of each tensor leaf of the arguments
  Structure output;
  std::vector<ValueId> outputs; // of each tensor leaf of the result
  // Set by buildCapture:
  bool writesDeclared = false;              // some declared value's memory is written
  std::vector<FamilyId> countedFromStorage; // some operator names a place counted from its storage's start
};

/// The capture without its result and guards.
Capture buildCapture(Recorded &recorded, const CaptureOptions &options);

/// Fills in the guards: what must hold at a later call for the graph to stand for it. `entry` is the thread's
/// state at entry.
struct EntryState {
  AmbientState ambient;
  std::string autocast;     // off, or the dtype
  std::string hostAutocast; // of the CPU, where the graph's device is another
  std::string autocastCache;
  std::string defaultDtype;
};
EntryState entryState(c10::DeviceType device);
/// `leaves`: the tensor leaves of the recorded call's arguments.
void addGuards(Capture &capture, const Recorded &recorded, const EntryState &entry,
               const std::vector<at::Tensor> &leaves);

} // namespace graphopt::capture
