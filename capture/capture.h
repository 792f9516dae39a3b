// Record: run a program once, for real, and write down every operator as the user called it.
#pragma once
#include "capture/program.h"
#include "ir/graph.h"

#include <ATen/core/Tensor.h>
#include <optional>
#include <string>
#include <vector>

namespace graphopt::capture {

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

/// A declared value of the graph and the tensor it stood for in the recorded call. Params, buffers and outside tensors
/// are read again at each call from here (late binding); consts and hostvals are copies.
struct Bound {
  ir::Value *value = nullptr;
  at::Tensor tensor;
  /// Only a weak hold: the program made the tensor before the call and may drop it. Params and buffers are strong.
  bool outside = false;
};

struct CaptureOptions {
  std::string graphName = "main";
  bool guessScopes = true; ///< for C++ modules: module paths from the parameters an operator reads
};

struct CaptureStats {
  size_t operators = 0;     // dispatcher calls recorded
  size_t followedReads = 0; // host reads that depended on sizes and constants only
  size_t borders = 0;
};

struct Capture {
  ir::Graph graph; // stage captured, form raw
  std::vector<Structure> arguments;
  std::vector<ir::Value *> inputs; // the value of each tensor leaf of the arguments; a tensor passed twice appears twice
  std::vector<Bound> bound;        // every declared value that is no input
  Structure output;                // over the operands of the graph's return, in order
  c10::IValue result;              // what the call returned
  CaptureStats stats;
};

/// Runs `program` and records it. Exceptions of the program pass through, with nothing left behind. Nested calls on the
/// same thread record into the outermost capture; other threads are not seen.
Capture record(Program &program, std::vector<c10::IValue> args, const CaptureOptions &options = {});

/// What guards compare, read from live tensors: dtype, sizes, strides, device, flags, requires_grad.
ir::Type typeOf(const at::Tensor &tensor);

/// A guard that failed, with both sides as text: "guard #1 meta(%x) == f32[2, 16] failed: actual f32[3, 16]".
struct GuardMiss {
  int number = 0;
  std::string text;     // the guard as printed
  std::string actual;
};
/// Checks the graph's guards in order against the arguments' tensor leaves (by input value) and the thread's ambient state.
/// The first miss, or nothing.
std::optional<GuardMiss> checkGuards(const Capture &capture, const std::vector<c10::IValue> &args);

/// Whether the wheel's dispatcher keys are free and graphopt's handler is in place; the reason when not. Checked once at load.
std::optional<std::string> selfTest();

} // namespace graphopt::capture
