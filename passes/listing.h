// What the manager writes about a pass: headed graphs, line differences, dump files, reproducers.
#pragma once
#include "passes/manager.h"

#include <string>

namespace graphopt::passes {

/// "// after cse: 0.3 ms, 120 -> 98 ops", with a line end: the comment each dumped graph starts with.
std::string heading(const PassReport &report);

/// The lines that differ, marked '-' and '+', with two equal lines around them; "  ..." stands for the rest.
/// Empty when the texts are equal.
std::string diffLines(const std::string &before, const std::string &after);

/// Writes `text` to DIR/GRAPH.NN.PASS.gir, making the folder. Throws a user error when that fails.
void dumpFile(const std::string &dir, const std::string &graph, size_t number, const std::string &pass,
              const std::string &text);

/// A runnable file: its first line is the RUN line that runs `step` on `graphText`, then a comment with the
/// failure.
std::string reproducerText(const PipelineStep &step, const ManagerOptions &options,
                           const std::string &failure, const std::string &graphText);

/// Writes a file whole. Throws a user error that names it when that fails.
void writeFile(const std::string &path, const std::string &text);

} // namespace graphopt::passes
