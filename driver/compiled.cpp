// The trusted replay: a call that satisfies a variant's guards runs its plan and skips the host code. Every
// other call runs the host code exactly once, either recorded or as it is, and says why.
#include "driver/compiled.h"

#include "driver/log.h"

#include "ir/print.h"
#include "runtime/catalog.h"

#include <graphopt/error.h>
#include <graphopt/stance.h>

#include <algorithm>
#include <c10/core/GradMode.h>
#include <cstdlib>

namespace graphopt::driver {
namespace {

constexpr size_t kKeptMisses = 16;
std::atomic<uint64_t> compiledVariants{0};

bool anyRequiresGrad(const std::vector<c10::IValue> &args) {
  std::vector<at::Tensor> leaves;
  for (const c10::IValue &arg : args)
    capture::flatten(arg, leaves);
  return std::any_of(leaves.begin(), leaves.end(),
                     [](const at::Tensor &tensor) { return tensor.defined() && tensor.requires_grad(); });
}

constexpr const char *kGradAdvice =
    "call it under torch::NoGradGuard, or compile the program when training is supported";

/// Why a gradient could be asked of this call; empty when none can.
std::string gradientReason(const capture::Program &program, const std::vector<c10::IValue> &args) {
  if (!c10::GradMode::is_enabled())
    return "";
  if (anyRequiresGrad(args))
    return fmt::format("a gradient could be asked for: an argument requires grad ({})", kGradAdvice);
  for (const capture::NamedTensor &state : program.state())
    if (state.tensor.requires_grad())
      return fmt::format("a gradient could be asked for: '{}' requires grad ({})", state.name, kGradAdvice);
  return "";
}

std::string describe(const BorderInfo &border) {
  return fmt::format("host read '{}' at {} (operator {})", border.reason,
                     border.module.empty() ? "the top" : "'" + border.module + "'", border.sequence);
}

/// Why a recording may not be replayed with its host code skipped; empty when it may.
std::string replayReason(const capture::Capture &capture, const CompileOptions &options) {
  const std::vector<BorderInfo> borders = bordersOf(capture.graph);
  if (!borders.empty())
    return fmt::format("{}{}: the host decides from data, so its code cannot be skipped{}",
                       options.fullgraph ? "fullgraph was asked for, but there is a " : "",
                       describe(borders[0]),
                       borders.size() == 1 ? "" : fmt::format(" ({} borders in all)", borders.size()));
  std::vector<at::Tensor> results;
  capture::flatten(capture.result, results);
  for (const at::Tensor &result : results)
    if (result.defined() && result.requires_grad() && !result.is_leaf())
      return fmt::format("a gradient could be asked for: a result requires grad ({})", kGradAdvice);
  return "";
}

std::string textOf(const MissInfo &miss) {
  return fmt::format("call {}, variant {}: {} failed: actual {}", miss.call, miss.variant, miss.text,
                     miss.actual);
}

void logVariant(const Variant &variant) {
  if (logs(Channel::graph))
    log(Channel::graph, "captured:\n" + ir::print(variant.capture().graph) +
                            (variant.compiled() ? "runs:\n" + ir::print(variant.graph()) : ""));
  if (logs(Channel::guards))
    log(Channel::guards, fmt::format("{}", fmt::join(variant.describe().guards, "\n")));
}

} // namespace

uint64_t compilations() { return compiledVariants; }

CompiledCallable::CompiledCallable(const CompileOptions &options, const std::string &name)
    : options_(options), name_(options.name.empty() ? name : options.name) {
  if (options_.auditEvery == 0)
    userError("auditEvery is the number of calls from one audited call to the next: 1 or more");
  isEager_ = options_.disable;
  if (isEager_)
    return;
  if (const std::optional<std::string> trouble = capture::selfTest())
    giveUp(*trouble);
  else if (options_.replay != Replay::trusted)
    shadow_ = std::make_unique<Shadow>(options_, name_);
}

/// In a process that cannot be captured.
void CompiledCallable::giveUp(const std::string &trouble) {
  const std::string reason = "this process cannot be captured: " + trouble;
  if (options_.strict)
    userError(reason);
  static std::once_flag said;
  std::call_once(said, [&] { fmt::print(stderr, "graphopt: compiled calls run eagerly: {}\n", reason); });
  eagerReasons_.push_back(reason);
  isEager_ = true;
}

void CompiledCallable::shadow(capture::Program &program, const std::function<void()> &code,
                              const ArgumentsGetter &arguments) {
  ++counters_.calls;
  if (shadow_) {
    shadow_->call(program, code, arguments);
    return;
  }
  ++counters_.eagerRuns; // disabled, or giveUp() said why
  code();
}

bool CompiledCallable::isAuditDue() const {
  return options_.replay == Replay::audit && counters_.calls % options_.auditEvery == 0;
}

/// The program in shadow; `audit` hears of its error.
c10::IValue CompiledCallable::runAudited(capture::Program &program, std::vector<c10::IValue> args,
                                         Audit *audit) {
  const StanceGuard recording(Stance::normal); // what is recorded for an audit is not the caller's business
  c10::IValue result;
  try {
    shadow_->call(program, [&] { result = program.call(args); }, [&] { return args; });
  } catch (const std::exception &error) {
    if (audit)
      noteAudit(audit->differenceFromError(error.what()));
    throw;
  }
  return result;
}

c10::IValue CompiledCallable::audit(const Variant &variant, capture::Program &program,
                                    std::vector<c10::IValue> args) {
  ++counters_.audits;
  std::optional<Audit> audit;
  try {
    audit.emplace(variant, args);
  } catch (const std::exception &error) { // the call is still answered by the program itself
    log(Channel::shadow, fmt::format("{}: an audit compares nothing: {}", name_, error.what()));
  }
  c10::IValue result = runAudited(program, std::move(args), audit ? &*audit : nullptr);
  if (audit)
    noteAudit(audit->difference(result));
  return result;
}

void CompiledCallable::noteAudit(const std::string &difference) {
  if (difference.empty())
    return;
  ++counters_.auditDifferences;
  const std::string text = fmt::format("call {}: {}", counters_.calls.load(), difference);
  {
    std::unique_lock lock(mutex_);
    auditDifferences_.push_back(text);
  }
  auditFailed_ = true;
  const std::string all =
      fmt::format("'{}': an audit found that skipping the host code is wrong, in {}; from now "
                  "on calls run in shadow",
                  name_, text);
  if (options_.strict)
    userError(all);
  fmt::print(stderr, "graphopt: warning: {}\n", all);
}

void CompiledCallable::refuse(const std::string &reason) const {
  userError(fmt::format("'{}' cannot be replayed in trusted mode: {}", name_, reason));
}

void CompiledCallable::refuseFromNowOn(const std::string &reason) {
  {
    std::unique_lock lock(mutex_);
    refusal_ = reason;
  }
  refuse(reason);
}

/// A program that replaces tensors of its own between calls has state that replay cannot see.
void CompiledCallable::checkOutside() {
  for (const auto &variant : variants())
    if (const std::string name = variant->deadOutside(); !name.empty())
      refuseFromNowOn(fmt::format(
          "the outside tensor '%{}' of the recorded call is gone: replay reads it by identity at each "
          "call, so keep it and write into it, or pass it as an argument",
          name));
}

CompiledCallable::Lookup CompiledCallable::lookUp(const std::vector<c10::IValue> &args) const {
  std::shared_lock lock(mutex_);
  if (!refusal_.empty())
    refuse(refusal_);
  Lookup result;
  for (size_t i = variants_.size(); i-- > 0;) { // the newest first: the likeliest
    std::optional<MissInfo> miss = variants_[i]->check(args);
    if (!miss)
      return {variants_[i], std::nullopt};
    miss->variant = i;
    if (!result.nearest || miss->guard > result.nearest->guard)
      result.nearest = std::move(miss);
  }
  return result;
}

size_t CompiledCallable::variantCount() const {
  std::shared_lock lock(mutex_);
  return variants_.size();
}

void CompiledCallable::noteMiss(MissInfo miss) {
  ++counters_.misses;
  miss.call = counters_.calls;
  log(Channel::recompiles, fmt::format("{}: {}", name_, textOf(miss)));
  std::unique_lock lock(mutex_);
  misses_.push_back(std::move(miss));
  if (misses_.size() > kKeptMisses)
    misses_.erase(misses_.begin());
}

c10::IValue CompiledCallable::runHost(capture::Program &program, std::vector<c10::IValue> args,
                                      const std::string &reason) {
  ++counters_.eagerRuns;
  {
    std::unique_lock lock(mutex_);
    if (std::find(eagerReasons_.begin(), eagerReasons_.end(), reason) == eagerReasons_.end()) {
      eagerReasons_.push_back(reason);
      log(Channel::recompiles, fmt::format("{} runs eagerly: {}", name_, reason));
    }
  }
  return program.call(std::move(args));
}

c10::IValue CompiledCallable::replay(const Variant &variant, capture::Program &program,
                                     std::vector<c10::IValue> args) {
  ++variant.hits;
  if (!variant.compiled())
    return runHost(program, std::move(args), variant.eagerReason);
  ++counters_.hits;
  return variant.run(args);
}

c10::IValue CompiledCallable::call(capture::Program &program, std::vector<c10::IValue> args,
                                   const ModuleList &modules) {
  ++counters_.calls;
  if (isEager_)
    return runHost(program, std::move(args), "disabled by an option");
  if (currentStance() == Stance::forceEager)
    return runHost(program, std::move(args), "the stance forceEager");
  if (capture::isRecording())
    return runHost(program, std::move(args), "called by a program that was being recorded");
  if (auditFailed_) // meanwhile
    return runAudited(program, std::move(args), nullptr);
  if (const Lookup found = lookUp(args); found.hit)
    return isAuditDue() && found.hit->compiled() ? audit(*found.hit, program, std::move(args))
                                                 : replay(*found.hit, program, std::move(args));
  if (const std::string reason = gradientReason(program, args); !reason.empty())
    refuse(reason);
  return record(program, std::move(args), modules);
}

c10::IValue CompiledCallable::record(capture::Program &program, std::vector<c10::IValue> args,
                                     const ModuleList &modules) {
  std::unique_lock recording(recording_);
  const Lookup found = lookUp(args); // another thread may have recorded the same meanwhile
  if (found.hit) {
    recording.unlock();
    return replay(*found.hit, program, std::move(args));
  }
  checkOutside();
  if (found.nearest)
    noteMiss(*found.nearest);
  const std::string why = found.nearest ? textOf(*found.nearest) : "nothing was recorded yet";
  if (currentStance() == Stance::failOnRecompile)
    userError(fmt::format("'{}' would have to be recorded, which the stance failOnRecompile forbids: {}",
                          name_, why));
  if (currentStance() == Stance::eagerOnRecompile) {
    recording.unlock();
    return runHost(program, std::move(args), "the stance eagerOnRecompile");
  }
  if (variantCount() >= options_.recompileLimit) {
    recording.unlock();
    return runHost(program, std::move(args),
                   fmt::format("fits none of {} variants, which is the limit (recompileLimit)",
                               options_.recompileLimit));
  }
  std::vector<detail::WatchedModule> watched = modules ? modules() : std::vector<detail::WatchedModule>();
  capture::Capture capture = capture::record(program, std::move(args), {.graphName = name_});
  ++counters_.captures;
  const c10::IValue result = capture.result;
  insert(std::move(capture), std::move(watched));
  return result;
}

/// A recording that may not be replayed is remembered as a refusal: later calls throw before anything has
/// run.
void CompiledCallable::insert(capture::Capture capture, std::vector<detail::WatchedModule> watched) {
  for (const BorderInfo &border : bordersOf(capture.graph))
    log(Channel::graph_breaks, fmt::format("{}: {}", name_, describe(border)));
  const std::string reason = replayReason(capture, options_);
  auto variant = std::make_shared<Variant>(std::move(capture), std::move(watched));
  if (!reason.empty()) {
    logVariant(*variant);
    refuseFromNowOn(reason);
  }
  try {
    passes::ManagerOptions manager;
    manager.catalog = &runtime::dispatcherCatalog();
    if (const char *dir = std::getenv("GRAPHOPT_DUMP_DIR"))
      manager.dumpDir = dir;
    variant->compile(passes::parsePipeline(kPipeline), manager);
    ++compiledVariants;
  } catch (const std::exception &error) {
    if (options_.strict)
      throw;
    ++counters_.failures;
    variant->eagerReason = fmt::format("the compile failed: {}", error.what());
  }
  logVariant(*variant);
  std::unique_lock lock(mutex_);
  variants_.push_back(std::move(variant));
}

std::string CompiledCallable::replayName() const {
  if (options_.disable)
    return "disabled";
  if (isEager_)
    return "eager";
  switch (options_.replay) {
  case Replay::shadow:
    return "shadow";
  case Replay::audit:
    return auditFailed_ ? "shadow, since an audit found a difference" : "audit";
  case Replay::trusted:
    return "trusted";
  }
  return "";
}

Explanation CompiledCallable::explain() const {
  Explanation explanation;
  explanation.name = name_;
  explanation.replay = replayName();
  if (shadow_)
    shadow_->explain(explanation);
  explanation.counters = counters_.snapshot();
  std::shared_lock lock(mutex_);
  for (const auto &variant : variants_)
    explanation.variants.push_back(variant->describe());
  explanation.misses = misses_;
  explanation.auditDifferences = auditDifferences_;
  explanation.eagerReasons = eagerReasons_;
  explanation.refusal = refusal_;
  return explanation;
}

std::vector<std::shared_ptr<const Variant>> CompiledCallable::variants() const {
  std::shared_lock lock(mutex_);
  return {variants_.begin(), variants_.end()};
}

void CompiledCallable::reset() {
  if (shadow_)
    shadow_->reset();
  std::unique_lock lock(mutex_);
  variants_.clear();
  refusal_.clear();
  auditFailed_ = false;
}

} // namespace graphopt::driver
