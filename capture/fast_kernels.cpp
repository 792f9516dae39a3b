// Unboxed kernels for frequent operators: the comparison without building a stack. Whatever they cannot
// settle goes the boxed way, through the same handler.
//
// Registered on the fallback's key, once, when the library is loaded. Only threads inside a shadowed or
// recorded call have the key.
#include "capture/handler.h"
#include "capture/keys.h"
#include "capture/matching.h"

#include <ATen/Operators.h>
#include <torch/library.h>

namespace graphopt::capture {
namespace {

/// The operator's handle, whose name's address is its identity.
template <class Op> const c10::OperatorHandle &handleOf() {
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
  return handle;
}
template <class Op> const void *const identity = &handleOf<Op>().operator_name();

template <class Op, class Signature> struct Fast;

template <class Op, class Result, class... Args> struct Fast<Op, Result(Args...)> {
  static Result call(c10::DispatchKeySet keys, Args... args) {
    Frame *frame = currentFrame;
    if (frame) [[likely]] {
      const Row *row = frame->next();
      if (row && row->op == identity<Op> && matches(*frame, *row, keys & kBelowCaptureHigh, args...))
          [[likely]]
        return answer(*frame, *row, args...);
    }
    return boxed(keys, std::forward<Args>(args)...);
  }

private:
  static bool matches(Frame &frame, const Row &row, c10::DispatchKeySet keys,
                      const std::remove_reference_t<Args> &...args) {
    if (!frame.stateMatches(row, keys))
      return false;
    Matcher matcher(frame, row);
    WordReader<Matcher> reader(matcher);
    if ((reader(args) && ...) && frame.accept(row)) [[likely]]
      return true;
    frame.undo();
    return false;
  }

  [[gnu::flatten]] static Result answer(Frame &frame, const Row &row,
                                        const std::remove_reference_t<Args> &...args) {
    frame.countShadowed();
    if constexpr (std::is_same_v<Result, at::Tensor &>) {
      return const_cast<at::Tensor &>(std::get<0>(std::forward_as_tuple(args...))); // written in place
    } else if constexpr (std::is_same_v<Result, at::Tensor>) {
      return frame.give(row, 0);
    } else {
      static_assert(std::is_same_v<Result, std::vector<at::Tensor>>);
      Result results;
      results.reserve(row.resultCount);
      for (size_t i = 0; i < row.resultCount; ++i)
        results.push_back(frame.give(row, i));
      return results;
    }
  }

  [[gnu::noinline]] static Result boxed(c10::DispatchKeySet keys, Args... args) {
    torch::jit::Stack stack;
    torch::jit::push(stack, args...);
    handleBoxed(handleOf<Op>(), keys, &stack);
    if constexpr (std::is_same_v<Result, at::Tensor &>)
      return std::get<0>(std::forward_as_tuple(args...));
    else
      return std::move(stack.front()).template to<Result>();
  }
};

template <class Op> void addFast(torch::Library &library) {
  std::string name = std::string(Op::name).substr(std::string_view("aten::").size());
  if (*Op::overload_name)
    name += std::string(".") + Op::overload_name;
  library.impl(name.c_str(),
               torch::CppFunction::makeFromUnboxedFunction(&Fast<Op, typename Op::schema>::call));
}

// Leaked, as the fallback is.
bool addAll() {
  auto &library = *new torch::Library(torch::Library::IMPL, "aten", kCaptureHigh, __FILE__, __LINE__);
#define FAST(name) addFast<at::_ops::name>(library);
#include "capture/fast_kernels.def"
#undef FAST
  return true;
}
[[maybe_unused]] const bool added = addAll();

} // namespace
} // namespace graphopt::capture
