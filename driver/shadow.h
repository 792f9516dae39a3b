// Shadow mode of a compiled callable: the host code runs at each call, in a frame that checks its operators
// against the trace graph, and segments run when they are complete.
#pragma once
#include "capture/frame.h"
#include "capture/program.h"
#include "driver/segment_book.h"
#include "driver/verify_run.h"

#include <graphopt/explain.h>
#include <graphopt/options.h>

#include <deque>
#include <functional>
#include <mutex>

namespace graphopt::driver {

/// What is asked of a call only when it is recorded.
using ArgumentsGetter = std::function<std::vector<c10::IValue>()>;

class Shadow {
public:
  Shadow(const CompileOptions &options, std::string name);
  ~Shadow();

  /// Runs `code`, which is one call of `program`. Its errors, and those of operators put off, pass through.
  /// Safe from many threads; inside another shadowed or recorded call the code just runs, as part of that.
  void call(capture::Program &program, const std::function<void()> &code, const ArgumentsGetter &arguments);

  void explain(Explanation &explanation) const;
  void reset();

private:
  class Call;
  std::unique_ptr<Call> take();
  void giveBack(std::unique_ptr<Call> call);
  void sayNews();
  void say(std::deque<std::string> &list, std::string text);
  bool isToVerify(const capture::SegmentRun &run) const;
  void noteVerdict(const capture::SegmentRun &run, const VerifyVerdict &verdict);
  void logGraph(const capture::Segment &segment) const;
  void explainSegments(Explanation &explanation) const;

  const CompileOptions options_;
  const std::string name_;
  capture::TraceGraph graph_;
  SegmentBook compiled_;
  mutable std::mutex mutex_; // guards all below
  std::vector<std::unique_ptr<Call>> idle_;
  ShadowCounters counters_;
  std::map<std::string, uint64_t> borders_;
  std::deque<std::string> divergences_, overLimits_, verifyFindings_, dynamic_, unknownShapes_;
};

} // namespace graphopt::driver
