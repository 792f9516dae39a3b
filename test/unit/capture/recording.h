// Short ways to record in tests.
#pragma once
#include "capture/capture.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <gtest/gtest.h>

namespace graphopt::capture {

using Tensors = std::vector<at::Tensor>;
using Body = std::function<c10::IValue(const Tensors &)>;

/// A program over tensor arguments.
std::unique_ptr<Program> programOf(Body body, std::vector<NamedTensor> state = {});

/// Records, and checks what holds for every recording: the verifier is content and the text reads back to the
/// same text.
Capture recordChecked(Program &program, std::vector<c10::IValue> args);
Capture recordBody(Body body, const Tensors &inputs, std::vector<NamedTensor> state = {});

/// The lines of the graph's body, without indentation.
std::string bodyOf(const Capture &capture);
/// The declarations that are no inputs, one a line.
std::string declarationsOf(const Capture &capture);
/// The reasons of the borders, one a line.
std::string bordersOf(const Capture &capture);
/// The names of the operators, one a line.
std::string operatorsOf(const Capture &capture);
/// The texts of the guards of some kind, one a line, without numbers.
std::string guardsOf(const Capture &capture, const std::string &kind);

/// 0, 1, 2 ... in the given sizes.
at::Tensor ramp(at::IntArrayRef sizes);

} // namespace graphopt::capture
