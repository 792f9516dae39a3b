// The flags that pick passes and watch them run; made from passes.def, shared by every command that runs a
// pipeline.
#pragma once
#include "passes/manager.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace graphopt::tools {

/// What the flags said. Filled while the command line is parsed; read it afterwards only.
class PassFlags {
public:
  /// Declares --pass-pipeline, one flag a pass, and -O0 ... -O2: passes run in the order of the command line.
  void addPipelineFlags(CLI::App &app);
  /// Declares --passes alone, for commands on models.
  void addPassesFlag(CLI::App &app);
  /// Declares the flags that print, dump, verify, time, count, bisect.
  void addManagerFlags(CLI::App &app);

  /// The pipeline that was asked for; empty when there was none. Throws a user error for unknown passes and
  /// options.
  passes::Pipeline pipeline() const;
  passes::ManagerOptions managerOptions(const ir::OpCatalog *catalog) const;
  bool dumpsPipeline() const { return dumpPipeline_; }
  bool verifiesRoundtrip() const { return verifyRoundtrip_; }

  /// Writes what --timing, --stats and --timing-json ask for, once all graphs have run.
  void report(const std::vector<passes::PassReport> &reports) const;

private:
  const CLI::App *app_ = nullptr;
  std::string pipeline_, level_, printChanged_, dumpDir_, reproducer_, timingJson_, numerics_ = "eager";
  std::vector<std::string> printBefore_, printAfter_;
  bool dumpPipeline_ = false, printAfterAll_ = false, verifyEach_ = true, verifyRoundtrip_ = false;
  bool timing_ = false, statistics_ = false;
  int bisectLimit_ = 0;
  CLI::Option *bisect_ = nullptr;
};

} // namespace graphopt::tools
