// CompiledCallable: all variants of one callable, with counters and reasons. The life of a call is call():
// look up by guards, else record, transform, plan, insert; the host code runs at most once a call.
#pragma once
#include "capture/program.h"
#include "driver/audit.h"
#include "driver/counters.h"
#include "driver/shadow.h"
#include "driver/variant.h"

#include <graphopt/explain.h>
#include <graphopt/options.h>

#include <mutex>
#include <shared_mutex>

namespace graphopt::driver {

class CompiledCallable {
public:
  /// `name` is what messages and graphs call it, unless the options name it. In a process that cannot be
  /// captured, calls run as they are, which is said once; with Options::strict that is a user error.
  CompiledCallable(const CompileOptions &options, const std::string &name);

  /// One call of `program`, which must be the same program each time (its code may come in a new object).
  /// Safe from many threads; calls made by a program that is being recorded run as they are. Errors of the
  /// program pass through. Throws a user error, before the program has run where that can be known, when the
  /// call may not be replayed: a gradient could be asked for, a host read in the middle, an outside tensor
  /// that died.
  c10::IValue call(capture::Program &program, std::vector<c10::IValue> args, const ModuleList &modules = {});

  /// One call of `program` whose arguments and result stay with `code`.
  void shadow(capture::Program &program, const std::function<void()> &code, const ArgumentsGetter &arguments);
  /// Whether calls go through shadow() rather than call(): in shadow mode, after an audit that found a
  /// difference, and where nothing is compiled.
  bool shadows() const { return options_.replay == Replay::shadow || isEager_ || auditFailed_; }

  Explanation explain() const;
  std::vector<std::shared_ptr<const Variant>> variants() const;
  /// Forgets every variant, refusal and failed audit; counters go on.
  void reset();

private:
  struct Lookup {
    std::shared_ptr<Variant> hit;
    std::optional<MissInfo> nearest; // of the variant whose first failed guard has the highest number
  };
  void giveUp(const std::string &trouble);
  bool isAuditDue() const;
  c10::IValue audit(const Variant &variant, capture::Program &program, std::vector<c10::IValue> args);
  c10::IValue runAudited(capture::Program &program, std::vector<c10::IValue> args, Audit *audit);
  void noteAudit(const std::string &difference);
  Lookup lookUp(const std::vector<c10::IValue> &args) const;
  c10::IValue replay(const Variant &variant, capture::Program &program, std::vector<c10::IValue> args);
  c10::IValue runHost(capture::Program &program, std::vector<c10::IValue> args, const std::string &reason);
  c10::IValue record(capture::Program &program, std::vector<c10::IValue> args, const ModuleList &modules);
  void insert(capture::Capture capture, std::vector<detail::WatchedModule> watched);
  void noteMiss(MissInfo miss);
  size_t variantCount() const;
  std::string replayName() const;
  void checkOutside();
  [[noreturn]] void refuseFromNowOn(const std::string &reason);
  [[noreturn]] void refuse(const std::string &reason) const;

  const CompileOptions options_;
  const std::string name_;
  bool isEager_ = false;           // disabled, or nothing can be captured
  std::unique_ptr<Shadow> shadow_; // Replay::shadow and Replay::audit
  std::atomic<bool> auditFailed_{false};
  AtomicCounters counters_;
  std::mutex recording_;            // one recording at a time
  mutable std::shared_mutex mutex_; // guards all below
  std::vector<std::shared_ptr<Variant>> variants_;
  std::vector<MissInfo> misses_;
  std::vector<std::string> eagerReasons_, auditDifferences_;
  std::string refusal_;
};

/// Variants compiled in this process so far.
uint64_t compilations();

} // namespace graphopt::driver
