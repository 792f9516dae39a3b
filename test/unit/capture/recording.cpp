// Records a program and says what came out, for tests.
#include "recording.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace graphopt::capture {

std::unique_ptr<Program> programOf(Body body, std::vector<NamedTensor> state) {
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

Capture recordChecked(Program &program, std::vector<c10::IValue> args) {
  Capture capture = record(program, std::move(args));
  EXPECT_NO_THROW(ir::verifyOrThrow(capture.graph));
  std::string text = ir::print(capture.graph);
  EXPECT_EQ(ir::print(ir::parseGraph(text)), text);
  return capture;
}

Capture recordBody(Body body, const Tensors &inputs, std::vector<NamedTensor> state) {
  return recordChecked(*programOf(std::move(body), std::move(state)), {inputs.begin(), inputs.end()});
}

namespace {
template <class F> std::string linesOf(const std::string &text, F keep) {
  std::string kept;
  for (size_t line = 0; line < text.size();) {
    size_t end = text.find('\n', line);
    std::string one = text.substr(line, end - line);
    line = end + 1;
    size_t start = one.find_first_not_of(' ');
    if (start == one.npos || one == "}" || one.starts_with("graph "))
      continue;
    one = one.substr(start);
    if (keep(one))
      kept += one + "\n";
  }
  return kept;
}

bool isDeclaration(const std::string &line) {
  for (const char *word : {"input ", "param ", "buffer ", "outside ", "hostval ", "const "})
    if (line.starts_with(word))
      return true;
  return false;
}
} // namespace

std::string bodyOf(const Capture &capture) {
  return linesOf(ir::print(capture.graph), [](const std::string &line) {
    return !isDeclaration(line) && !line.starts_with("guard ") && !line.starts_with("sym ");
  });
}

std::string declarationsOf(const Capture &capture) {
  return linesOf(ir::print(capture.graph),
                 [](const std::string &line) { return isDeclaration(line) && !line.starts_with("input "); });
}

std::string bordersOf(const Capture &capture) {
  std::string reasons;
  for (const auto &op : capture.graph.body())
    if (op->kind == ir::Op::Kind::Border)
      reasons += op->attr("reason")->text() + "\n";
  return reasons;
}

std::string operatorsOf(const Capture &capture) {
  std::string names;
  for (const auto &op : capture.graph.body())
    if (op->kind == ir::Op::Kind::Call)
      names += op->name + "\n";
  return names;
}

std::string guardsOf(const Capture &capture, const std::string &kind) {
  std::string texts;
  for (const ir::Guard &guard : capture.graph.guards) {
    std::string text = ir::print(guard);
    if (guard.kind == kind)
      texts += text.substr(text.find(kind)) + "\n";
  }
  return texts;
}

at::Tensor ramp(at::IntArrayRef sizes) {
  int64_t n = 1;
  for (int64_t size : sizes)
    n *= size;
  return at::arange(n, at::kFloat).reshape(sizes);
}

} // namespace graphopt::capture
