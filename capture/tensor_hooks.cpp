// Questions about a tensor that are no operators: its history, its version, its base, hooks on it, backward.
// LibTorch routes them through two replaceable objects, VariableHooks and the autograd engine; both are
// wrapped once, when the library is loaded, so that a frame can fill in what is asked about before the answer
// is given.
#include "capture/tensor_hooks.h"
#include "capture/keys.h"
#include "capture/placeholder.h"

#include <ATen/core/VariableHooksInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>

namespace graphopt::capture {
namespace {

using at::TensorBase;

thread_local HookListener *listener = nullptr;

class Hooks final : public at::impl::VariableHooksInterface {
public:
  explicit Hooks(VariableHooksInterface *below) : below_(below) {}

  TensorBase tensor_data(const TensorBase &self) const override { return touch(self).tensor_data(self); }
  TensorBase variable_data(const TensorBase &self) const override { return touch(self).variable_data(self); }
  const std::shared_ptr<torch::autograd::Node> &grad_fn(const TensorBase &self) const override {
    return touch(self).grad_fn(self);
  }
  unsigned _register_hook(const TensorBase &self,
                          std::function<TensorBase(const TensorBase &)> hook) const override {
    return touch(self)._register_hook(self, std::move(hook));
  }
  void remove_hook(const TensorBase &self, unsigned position) const override {
    touch(self).remove_hook(self, position);
  }
  bool is_view(const TensorBase &self) const override { return touch(self).is_view(self); }
  const TensorBase &base(const TensorBase &self) const override { return touch(self).base(self); }
  const std::string &name(const TensorBase &self) const override { return touch(self).name(self); }
  bool is_leaf(const TensorBase &self) const override { return touch(self).is_leaf(self); }
  int64_t output_nr(const TensorBase &self) const override { return touch(self).output_nr(self); }
  void set_data(const TensorBase &self, const TensorBase &data) const override {
    flush(); // other tensors may be bound to the memory
    below_->set_data(self, data);
  }
  TensorBase data(const TensorBase &self) const override { return touch(self).data(self); }
  int64_t _version(const TensorBase &self) const override { return touch(self)._version(self); }
  void retain_grad(const TensorBase &self) const override { touch(self).retain_grad(self); }
  bool retains_grad(const TensorBase &self) const override { return touch(self).retains_grad(self); }
  void _backward(const at::Tensor &self, at::TensorList inputs, const std::optional<at::Tensor> &gradient,
                 std::optional<bool> keepGraph, bool createGraph) const override {
    below_->_backward(self, inputs, gradient, keepGraph, createGraph); // comes to the engine
  }
  void requires_grad_(const TensorBase &self, bool value) const override {
    flush(); // pending operators ran under the old answer
    below_->requires_grad_(self, value);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys,
                                               torch::jit::Stack *stack) const override {
    below_->basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase &self) const override {
    return touch(self).grad_dtype(self);
  }
  void set_grad_dtype(const TensorBase &self, const std::optional<c10::ScalarType> &dtype) const override {
    touch(self).set_grad_dtype(self, dtype);
  }

private:
  const VariableHooksInterface &touch(const TensorBase &self) const {
    if (listener && self.defined())
      listener->onQuestion(*self.unsafeGetTensorImpl());
    return *below_;
  }
  static void flush() {
    if (listener)
      listener->onWholeState();
  }
  VariableHooksInterface *below_;
};

/// The engine that the process had, entered with nothing pending. autograd::grad() and backward() with
/// several roots come here without passing the hooks.
class FlushingEngine final : public torch::autograd::Engine {
public:
  explicit FlushingEngine(torch::autograd::Engine &below) : below_(below) {}
  torch::autograd::variable_list execute(const torch::autograd::edge_list &roots,
                                         const torch::autograd::variable_list &inputs, bool keepGraph,
                                         bool createGraph, bool accumulate,
                                         const torch::autograd::edge_list &outputs) override {
    if (!listener)
      return below_.execute(roots, inputs, keepGraph, createGraph, accumulate, outputs);
    listener->onWholeState();
    c10::impl::ExcludeDispatchKeyGuard off(kCaptureHigh); // travels to the engine's threads
    return below_.execute(roots, inputs, keepGraph, createGraph, accumulate, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future>
  execute_with_graph_task(const std::shared_ptr<torch::autograd::GraphTask> &task,
                          std::shared_ptr<torch::autograd::Node> root,
                          torch::autograd::InputBuffer &&inputs) override {
    return below_.execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return below_.make_anomaly_metadata();
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return below_.get_default_saved_variable_hooks();
  }

private:
  torch::autograd::Engine &below_;
};

torch::autograd::Engine *engineBelow = nullptr;

torch::autograd::Engine &flushingEngine() {
  static FlushingEngine &engine = *new FlushingEngine(*engineBelow);
  return engine;
}

// Leaked and never undone: other threads may be inside.
bool install() {
  at::impl::SetVariableHooks(new Hooks(at::impl::GetVariableHooks()));
  engineBelow = &torch::autograd::Engine::get_default_engine();
  torch::autograd::set_default_engine_stub(flushingEngine);
  return true;
}
const bool installed = install();

} // namespace

void runPendingOperators() {
  if (listener)
    listener->onWholeState();
}

void setHookListener(HookListener *hookListener) { listener = installed ? hookListener : nullptr; }

} // namespace graphopt::capture
