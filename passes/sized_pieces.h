// Pieces for sizes that are expressions: found by running each operator at three sizes.
#pragma once
#include "ir/pieces.h"

#include <string>
#include <unordered_map>

namespace graphopt::passes {

/// Asks `fixed` for the pieces of units with syms at sizes that are primes (or, of narrow ranges, what there
/// is), and puts the answers together: the same operators each time, whose numbers are expressions over the
/// unit's own. Where they are not, the piece is opaque with the reason: the operator as it is holds for all
/// sizes.
class SizedPieces final : public ir::PieceSource {
public:
  explicit SizedPieces(ir::PieceSource &fixed) : fixed_(fixed) {}
  const ir::ForwardPiece &forward(const ir::Graph &unit) override;
  const ir::BackwardPiece &backward(const ir::Graph &unit, const ir::GradientTypes &cotangents,
                                    const ir::GradientTypes &soFar) override;

private:
  ir::PieceSource &fixed_;
  std::unordered_map<std::string, ir::ForwardPiece> forwards_;
  std::unordered_map<std::string, ir::BackwardPiece> backwards_;
};

} // namespace graphopt::passes
