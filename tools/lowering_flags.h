// The flags that say where pieces come from and go to, for commands that lower.
#pragma once
#include "driver/lowering.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace graphopt::tools {

class LoweringFlags {
public:
  void add(CLI::App &app);
  /// Made when it is first asked for. Operators are probed here, and kept in the user's cache; with --pieces
  /// only those of the file are known. Throws a user error when that cannot be read.
  passes::PieceBook &pieces();
  /// Writes what --save-pieces asks for.
  void save();

private:
  std::string from_, to_;
  std::unique_ptr<driver::Lowering> lowering_;
  std::unique_ptr<passes::PieceBook> fromFile_;
};

} // namespace graphopt::tools
