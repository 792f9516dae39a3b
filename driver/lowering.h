// What lowering needs of this process: a prober that runs units through the interpreter, and a book of
// pieces.
#pragma once
#include "capture/prober.h"
#include "passes/piece_book.h"

namespace graphopt::driver {

class Lowering {
public:
  explicit Lowering(capture::ProberOptions options = {});
  /// For ManagerOptions::pieces.
  passes::PieceBook &pieces() { return book_; }
  const capture::ProberCounts &counts() const { return prober_.counts(); }

private:
  capture::Prober prober_;
  passes::PieceBook book_;
};

} // namespace graphopt::driver
