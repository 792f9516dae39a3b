// Record: run a program once, for real, and write down every operator as the user called it.
#pragma once
#include "capture/program.h"
#include "ir/graph.h"

#include <ATen/core/Tensor.h>
#include <optional>
#include <string>
#include <vector>

namespace graphopt::capture {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// The shape of nested arguments and results: which leaf is which tensor, and the scalars between them.
struct Structure {
  enum class Kind { Tensor, Constant, Tuple, List, OptionalTensorList, Dict };
  Kind kind = Kind::Constant;
  size_t leaf = 0;                 // Tensor: its position among the leaves
  c10::IValue constant;            // Constant: ints, floats, strings, None, undefined tensors
  std::vector<Structure> children; // Tuple, List: items. Dict: values, in the order of `keys`
  std::vector<c10::IValue> keys;
};
/// Splits a value into its tensors (appended to `leaves`) and the rest.
Structure flatten(const c10::IValue &value, std::vector<at::Tensor> &leaves);
c10::IValue unflatten(const Structure &structure, const std::vector<at::Tensor> &leaves);
/// Empty when equal in shape and constants, else what differs.
std::string difference(const Structure &a, const Structure &b);

/// A declared value of the graph and the tensor it stood for in the recorded call. Params, buffers and
/// outside tensors are read again at each call from here (late binding); consts and hostvals are copies.
struct Bound {
  ir::Value *value = nullptr;
  at::Tensor tensor;              ///< undefined for an outside tensor
  bool outside = false;           ///< the program owns the tensor and may drop it: only a weak hold
  std::optional<WeakTensor> weak; ///< the tensor it was in the recorded call
  /// The tensor now; undefined when the program has dropped it.
  at::Tensor get() const;
};

struct CaptureOptions {
  std::string graphName = "main";
  bool guessScopes = true; ///< for C++ modules: module paths from the parameters an operator reads
  /// Without kernels: nothing is computed that costs anything, nothing of the program's changes, and the
  /// capture has no result. A program that decides by contents which only kernels give is refused with a
  /// c10::Error.
  bool dry = false;
};

struct CaptureStats {
  size_t operators = 0;     // dispatcher calls recorded
  size_t followedReads = 0; // host reads that depended on sizes and constants only
  size_t borders = 0;
};

struct Capture {
  ir::Graph graph; // stage captured, form raw
  std::vector<Structure> arguments;
  std::vector<std::string> argumentNames; // one an argument
  std::vector<ir::Value *>
      inputs; // the value of each tensor leaf of the arguments; a tensor passed twice appears twice
  std::vector<Bound> bound; // every declared value that is no input
  Structure output;         // over the operands of the graph's return, in order
  c10::IValue result;       // what the call returned
  CaptureStats stats;
};

/// Runs `program` and records it. Exceptions of the program pass through, with nothing left behind. Other
/// threads are not seen. Not to be nested: inside a recorded call (isRecording) programs are run as they are,
/// and so become part of it.
Capture record(Program &program, std::vector<c10::IValue> args, const CaptureOptions &options = {});

/// Whether this thread is inside a recorded call. record() throws a user error there.
bool isRecording();

/// What guards compare, read from live tensors: dtype, sizes, strides, device, flags, requires_grad.
/// The device is left out where it is `graphDevice`.
ir::Type typeOf(const at::Tensor &tensor, const ir::Device &graphDevice = {});

/// A guard that failed, with both sides as text: "guard #1 meta(%x) == f32[2, 16] failed: actual f32[3, 16]".
struct GuardMiss {
  int number = 0;
  std::string text; // the guard as printed, "guard #1 meta(%x) == f32[2, 16]"
  std::string actual;
};
/// Checks the graph's guards in order against the arguments' tensor leaves (by input value) and the thread's
/// ambient state. The first miss, or nothing. Arguments of another shape (a tuple for a tensor) miss with
/// number -1.
std::optional<GuardMiss> checkGuards(const Capture &capture, const std::vector<c10::IValue> &args);

/// Whether the wheel's dispatcher keys are free and graphopt's handler is in place; the reason when not.
/// Checked once at load.
std::optional<std::string> selfTest();

/// For tests: as long as it lives, selfTest() finds this trouble. Not to be used from several threads.
class SelfTestTrouble {
public:
  explicit SelfTestTrouble(std::string trouble);
  ~SelfTestTrouble();
  SelfTestTrouble(const SelfTestTrouble &) = delete;
  SelfTestTrouble &operator=(const SelfTestTrouble &) = delete;
};

} // namespace graphopt::capture
