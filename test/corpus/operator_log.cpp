// LibTorch tells its profilers of every operator call; a profiler is all this is.
#include "operator_log.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

namespace graphopt::corpus {
namespace {

thread_local std::vector<std::string> *current = nullptr;

std::unique_ptr<at::ObserverContext> logOne(const at::RecordFunction &function) {
  // The autograd layer's own word for what aten::detach does besides.
  if (std::string_view(function.name()) != "detach")
    current->emplace_back(function.name());
  return nullptr;
}

/// Logs while it lives.
class Log {
public:
  explicit Log(std::vector<std::string> &names) {
    current = &names;
    callback_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(logOne).scopes({at::RecordScope::FUNCTION}));
  }
  ~Log() {
    at::removeCallback(callback_);
    current = nullptr;
  }
  Log(const Log &) = delete;

private:
  at::CallbackHandle callback_;
};

} // namespace

std::vector<std::string> operatorsOf(const std::function<void()> &work) {
  std::vector<std::string> names;
  Log log(names);
  work();
  return names;
}

std::string firstDifference(const std::vector<std::string> &want, const std::vector<std::string> &got) {
  size_t i = 0;
  while (i < want.size() && i < got.size() && want[i] == got[i])
    ++i;
  if (i == want.size() && i == got.size())
    return "";
  auto nameAt = [&](const std::vector<std::string> &names) {
    return i < names.size() ? names[i] : "the end";
  };
  return fmt::format("operator {}: {}, eager takes {}", i, nameAt(got), nameAt(want));
}

} // namespace graphopt::corpus
