// Variant: the guards, the graph and the plan for one family of arguments, and where the plan's inputs come
// from.
#pragma once
#include "capture/capture.h"
#include "capture/guard_program.h"
#include "passes/manager.h"
#include "runtime/execute.h"

#include <graphopt/compile.h>
#include <graphopt/explain.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

namespace graphopt::driver {

using ModuleList = std::function<std::vector<detail::WatchedModule>()>;

/// The pipeline of every compile.
inline constexpr const char *kPipeline = "functionalize,cleanup";

class Variant {
public:
  /// Takes over a recording (its result is dropped) and the training flags the program ran under.
  Variant(capture::Capture capture, std::vector<detail::WatchedModule> modules);

  /// Transforms and plans. Throws what the passes and the planner throw; run() may be used only after it
  /// returned.
  std::vector<passes::PassReport> compile(const passes::Pipeline &pipeline,
                                          const passes::ManagerOptions &options);
  /// The first fact of this variant that the arguments, the parameters or the thread do not satisfy.
  std::optional<MissInfo> check(const std::vector<c10::IValue> &args) const;
  /// The first outside tensor that the program has dropped since; empty when all live.
  std::string deadOutside() const;
  /// Runs the plan on arguments that passed check().
  c10::IValue run(const std::vector<c10::IValue> &args) const;
  /// The plan's inputs at such a call, and their names.
  std::vector<at::Tensor> inputs(const std::vector<c10::IValue> &args) const;
  std::string inputName(size_t input) const;
  /// Runs the plan on its inputs, or on others like them.
  c10::IValue runOn(const std::vector<at::Tensor> &inputs) const;

  const capture::Capture &capture() const { return capture_; }
  /// The graph that runs; the captured one before compile().
  const ir::Graph &graph() const { return graph_ ? *graph_ : capture_.graph; }
  bool compiled() const { return executor_ != nullptr; }
  VariantInfo describe() const;

  std::string eagerReason; ///< set when compile() failed: the variant's calls run as they are
  mutable std::atomic<uint64_t> hits{0};

private:
  struct Source {
    enum class Kind { Argument, Bound };
    Kind kind;
    size_t index; // of the arguments' tensor leaves, or of capture_.bound
  };
  /// The plan's inputs, with the parameters and buffers always in place.
  using Inputs = std::vector<at::Tensor>;
  class Lent;
  void fill(Inputs &inputs, const std::vector<c10::IValue> &args) const;
  std::string trainingGuard(size_t module) const;
  Source sourceOf(const std::string &name) const;
  bool isKept(const Source &source) const;
  runtime::SymValues symsOf(const std::vector<at::Tensor> &inputs) const;

  capture::Capture capture_;
  std::vector<detail::WatchedModule> modules_;
  std::vector<bool> training_; // of modules_, as recorded
  std::optional<ir::Graph> graph_;
  std::unique_ptr<runtime::Executor> executor_;
  std::vector<Source> sources_; // of the plan's inputs, in order
  double compileMilliseconds_ = 0;
  std::optional<capture::GuardProgram> program_;
  mutable std::mutex mutex_; // guards the next
  mutable std::vector<Inputs> idle_;
};

/// The host reads in a captured graph.
std::vector<BorderInfo> bordersOf(const ir::Graph &graph);

} // namespace graphopt::driver
