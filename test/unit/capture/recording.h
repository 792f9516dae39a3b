// Short ways to record in tests.
#pragma once
#include "capture/capture.h"
#include "ir/print.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace graphopt::capture {

using Tensors = std::vector<at::Tensor>;
using Body = std::function<c10::IValue(const Tensors &)>;

/// A program over tensor arguments.
inline std::unique_ptr<Program> programOf(Body body, std::vector<NamedTensor> state = {}) {
  return functionProgram(
      "test",
      [body = std::move(body)](std::vector<c10::IValue> args) {
        Tensors tensors;
        for (const c10::IValue &arg : args)
          tensors.push_back(arg.toTensor());
        return body(tensors);
      },
      [state = std::move(state)] { return state; });
}

inline Capture recordBody(Body body, const Tensors &inputs, std::vector<NamedTensor> state = {}) {
  return record(*programOf(std::move(body), std::move(state)), {inputs.begin(), inputs.end()});
}

/// The lines of the graph's body, without indentation.
inline std::string bodyOf(const Capture &capture) {
  std::string text = ir::print(capture.graph), body;
  size_t start = text.rfind("\n\n");
  size_t from = start == text.npos ? text.find('\n') + 1 : start + 2;
  for (size_t line = from; line < text.size();) {
    size_t end = text.find('\n', line);
    std::string one = text.substr(line, end - line);
    if (one != "}")
      body += one.substr(one.find_first_not_of(' ')) + "\n";
    line = end + 1;
  }
  return body;
}

} // namespace graphopt::capture
