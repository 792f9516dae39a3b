// Programs that are plain callables.
#include "capture/program.h"

namespace graphopt::capture {
namespace {

class FunctionProgram final : public Program {
public:
  FunctionProgram(std::string name, Callable call, StateGetter state)
      : name_(std::move(name)), call_(std::move(call)), state_(std::move(state)) {}
  std::string name() const override { return name_; }
  c10::IValue call(std::vector<c10::IValue> args) override { return call_(std::move(args)); }
  std::vector<NamedTensor> state() const override { return state_ ? state_() : std::vector<NamedTensor>(); }

private:
  std::string name_;
  Callable call_;
  StateGetter state_;
};

} // namespace

std::unique_ptr<Program> functionProgram(std::string name, Callable call, StateGetter state) {
  return std::make_unique<FunctionProgram>(std::move(name), std::move(call), std::move(state));
}

} // namespace graphopt::capture
