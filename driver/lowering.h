// What lowering needs of this process: a prober that runs units through the interpreter, and a book of
// pieces.
#pragma once
#include "capture/prober.h"
#include "driver/piece_folder.h"

namespace graphopt::driver {

/// Holds for the switches under which it was made.
class Lowering {
public:
  /// Pieces are kept in `folder` too (pieceFolder() is the user's own); an empty one keeps them in memory
  /// alone.
  explicit Lowering(std::filesystem::path folder = {}, capture::ProberOptions options = {});
  /// For ManagerOptions::pieces.
  passes::PieceBook &pieces() { return book_; }
  const capture::ProberCounts &counts() const { return prober_.counts(); }

private:
  capture::Prober prober_;
  PieceFolder store_;
  passes::PieceBook book_;
};

} // namespace graphopt::driver
