// On a dispatcher key of their own, one that LibTorch keeps for tests, with the operators that have fast
// kernels in capture/ unboxed here as well.
#include "bench/constant_kernels.h"

#include <ATen/Operators.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace graphopt::bench {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelow{c10::DispatchKeySet::FULL_AFTER, kKey};

using Answers = std::vector<std::vector<at::Tensor>>;
thread_local Answers *recording = nullptr;
thread_local const std::vector<at::Tensor> *next = nullptr;

void boxed(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  const auto &returns = op.schema().returns();
  if (recording || !next) {
    c10::impl::ExcludeDispatchKeyGuard off(kKey);
    op.redispatchBoxed(keys & kBelow, stack);
    if (!recording)
      return;
    std::vector<at::Tensor> &answer = recording->emplace_back();
    for (const c10::IValue &value : torch::jit::last(*stack, returns.size())) {
      if (value.isTensor())
        answer.push_back(value.toTensor());
      else if (value.isTensorList())
        answer = value.toTensorVector();
    }
    return;
  }
  torch::jit::drop(*stack, op.schema().arguments().size());
  const std::vector<at::Tensor> &answer = *next++;
  if (returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType)
    stack->emplace_back(answer);
  else
    for (const at::Tensor &tensor : answer)
      stack->emplace_back(tensor);
}

template <class Op, class Signature> struct Constant;
template <class Op, class Result, class... Args> struct Constant<Op, Result(Args...)> {
  static Result call(c10::DispatchKeySet keys, Args... args) {
    if (recording || !next) {
      c10::impl::ExcludeDispatchKeyGuard off(kKey);
      if constexpr (std::is_same_v<Result, at::Tensor &>) {
        Result result = Op::redispatch(keys & kBelow, std::forward<Args>(args)...);
        if (recording)
          recording->push_back({result});
        return result;
      } else {
        Result result = Op::redispatch(keys & kBelow, std::forward<Args>(args)...);
        if (recording) {
          if constexpr (std::is_same_v<Result, at::Tensor>)
            recording->push_back({result});
          else
            recording->push_back(result);
        }
        return result;
      }
    }
    const std::vector<at::Tensor> &answer = *next++;
    if constexpr (std::is_same_v<Result, at::Tensor &>)
      return std::get<0>(std::forward_as_tuple(args...));
    else if constexpr (std::is_same_v<Result, at::Tensor>)
      return answer[0];
    else
      return answer;
  }
};

template <class Op> void add(torch::Library &library) {
  std::string name = std::string(Op::name).substr(std::string_view("aten::").size());
  if (*Op::overload_name)
    name += std::string(".") + Op::overload_name;
  library.impl(name.c_str(),
               torch::CppFunction::makeFromUnboxedFunction(&Constant<Op, typename Op::schema>::call));
}

bool install() {
  static auto &fallback = *new auto(c10::Dispatcher::singleton().registerFallback(
      kKey, c10::KernelFunction::makeFromBoxedFunction<&boxed>(), "constant answers"));
  (void)fallback;
  auto &library = *new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
#define FAST(name) add<at::_ops::name>(library);
#include "capture/fast_kernels.def"
#undef FAST
  return true;
}
[[maybe_unused]] const bool installed = install();

} // namespace

void ConstantAnswers::record(const std::function<at::Tensor()> &code) {
  answers_.clear();
  c10::impl::IncludeDispatchKeyGuard on(kKey);
  recording = &answers_;
  code();
  recording = nullptr;
}

void ConstantAnswers::replay(const std::function<at::Tensor()> &code) {
  c10::impl::IncludeDispatchKeyGuard on(kKey);
  next = answers_.data();
  code();
  next = nullptr;
}

} // namespace graphopt::bench
