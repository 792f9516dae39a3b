// Pieces: what an operator of a captured graph is made of below autograd, found by running it alone (a
// probe), and the interface of whoever finds it.
//
// The operator alone is a unit: a captured graph whose inputs are the operator's distinct operands and whose
// return is its results. A unit says all that decides a piece: operand types, which operands need gradients,
// attributes, ambient state, switches. So its text is the key under which pieces are kept.
#pragma once
#include "ir/graph.h"

#include <optional>
#include <string>
#include <vector>

namespace graphopt::ir {

/// Values of a unit's forward run are numbered: its inputs first, then every tensor that its operators made,
/// in order. Number k is called `%vk` in a backward piece.
struct ForwardPiece {
  std::string opaque; ///< why the operator cannot be taken apart; empty: it was
  /// Inputs are the unit's, in order; returns the unit's results, and after them the numbered values that are
  /// no inputs (none for those that a backward never reads).
  Graph graph;
  size_t results = 0;
  std::vector<bool> requiresGrad; ///< one a result; empty for an opaque operator that does not run alone
};

/// One a result, or an operand: nothing where there is no cotangent, or no gradient yet.
using GradientTypes = std::vector<std::optional<Type>>;

struct BackwardPiece {
  std::string opaque;
  /// Inputs are those it reads of %vK (values of the forward run), %gJ (the cotangent of result J) and %sI
  /// (the gradient so far of operand I); returns the gradient of each operand, none where there is none.
  Graph graph;
};

class PieceSource {
public:
  virtual ~PieceSource() = default;
  /// The piece of a unit; valid until the next call.
  virtual const ForwardPiece &forward(const Graph &unit) = 0;
  /// Its vector-Jacobian product. Gradients so far are summed in the order in which autograd's engine would.
  virtual const BackwardPiece &backward(const Graph &unit, const GradientTypes &cotangents,
                                        const GradientTypes &soFar) = 0;
};

} // namespace graphopt::ir
