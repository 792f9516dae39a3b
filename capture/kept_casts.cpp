// LibTorch's cache has one function, which looks up or casts. To ask alone, the cast is answered with an
// exception: nothing is kept then.
#include "capture/kept_casts.h"

#include "capture/keys.h"
#include "capture/low_handler.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>

namespace graphopt::capture {
namespace {

at::Tensor lookUpOrCast(const at::Tensor &weight) {
  const c10::DeviceType device = weight.device().type();
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), weight, device);
}

struct NotKept {};

class RefusesToCast final : public OperatorSink {
public:
  void onCall(const c10::OperatorHandle &, c10::DispatchKeySet, torch::jit::Stack *) override {
    throw NotKept();
  }
};

} // namespace

bool isCastKept(const at::Tensor &tensor) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.requires_grad() &&
         tensor.is_leaf() && !tensor.is_view();
}

at::Tensor keptCast(const at::Tensor &weight) {
  c10::impl::ExcludeDispatchKeyGuard notRecorded(kCaptureHigh);
  return lookUpOrCast(weight);
}

namespace {

/// LibTorch makes the casts that it keeps with gradients on, whatever the grad mode.
class CastsWithoutHistory final : public OperatorSink {
public:
  explicit CastsWithoutHistory(const at::Tensor &weight) : weight_(weight) {}
  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) override {
    hasCast = true;
    torch::jit::drop(*stack, op.schema().arguments().size());
    stack->emplace_back(weight_.detach().to(at::autocast::get_autocast_dtype(weight_.device().type())));
  }
  bool hasCast = false;

private:
  const at::Tensor &weight_;
};

} // namespace

bool keepCastForLater(const at::Tensor &weight, at::Tensor &cast) {
  CastsWithoutHistory sink(weight);
  const NestedSink here(sink);
  cast = lookUpOrCast(weight);
  return !sink.hasCast;
}

void giveHistory(const at::Tensor &weight, const at::Tensor &cast) {
  using Node = torch::autograd::generated::ToCopyBackward0;
  if (cast.requires_grad())
    return;
  const std::shared_ptr<Node> node(new Node(), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(weight));
  node->self_options = weight.options();
  torch::autograd::set_history(cast, node);
}

bool hasKeptCast(const at::Tensor &tensor) {
  if (!isCastKept(tensor) || !lowRegistrationError().empty())
    return false;
  RefusesToCast sink;
  LowInterception seen(sink);
  try {
    keptCast(tensor);
    return true;
  } catch (const NotKept &) {
    return false;
  }
}

namespace {

/// The cast is asked for with to(), which is answered.
class AnswersWith final : public OperatorSink {
public:
  explicit AnswersWith(const at::Tensor &cast) : cast_(cast) {}
  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) override {
    torch::jit::drop(*stack, op.schema().arguments().size());
    stack->emplace_back(cast_);
  }

private:
  const at::Tensor &cast_;
};

class CacheOn {
public:
  CacheOn() { at::autocast::set_autocast_cache_enabled(true); }
  ~CacheOn() { at::autocast::set_autocast_cache_enabled(was_); }
  CacheOn(const CacheOn &) = delete;
  CacheOn &operator=(const CacheOn &) = delete;

private:
  const bool was_ = at::autocast::is_autocast_cache_enabled();
};

/// Of a weight that has none.
void keepCast(const at::Tensor &weight, const at::Tensor &cast) {
  const CacheOn on;
  AnswersWith answer(cast);
  const NestedSink sink(answer);
  lookUpOrCast(weight);
}

} // namespace

void CastsAsTaken::use(const at::Tensor &weight, const at::Tensor &cast) {
  const bool isKept = hasKeptCast(weight);
  if (isKept && keptCast(weight).is_same(cast))
    return;
  if (before_.empty())
    for (const at::Tensor &known : weights_)
      before_.push_back(hasKeptCast(known) ? keptCast(known) : at::Tensor());
  if (isKept)
    at::autocast::clear_cache(); // no single cast can be taken out; the others come again with their rows
  keepCast(weight, cast);
}

CastsAsTaken::~CastsAsTaken() {
  if (before_.empty())
    return;
  at::autocast::clear_cache();
  for (size_t i = 0; i < weights_.size(); ++i)
    if (before_[i].defined() && !hasKeptCast(weights_[i]))
      keepCast(weights_[i], before_[i]);
}

} // namespace graphopt::capture
