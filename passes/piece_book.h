// Pieces kept: each unit is probed once. What probes give is brought into the lowered form here.
#pragma once
#include "ir/op_catalog.h"
#include "ir/pieces.h"

#include <memory>
#include <string>
#include <unordered_map>

namespace graphopt::passes {

struct PieceCounts {
  size_t found = 0, probed = 0; ///< forward and backward pieces asked for
};

/// Pieces by the text of their units. Graphs it gives are lowered: functional, with views explicit. A source
/// that needs none of this may be left out: then it knows only what was read.
class PieceBook final : public ir::PieceSource {
public:
  PieceBook(ir::PieceSource *source, const ir::OpCatalog *catalog) : source_(source), catalog_(catalog) {}
  const ir::ForwardPiece &forward(const ir::Graph &unit) override;
  const ir::BackwardPiece &backward(const ir::Graph &unit, const ir::GradientTypes &cotangents,
                                    const ir::GradientTypes &soFar) override;
  const PieceCounts &counts() const { return counts_; }

private:
  std::string settle(ir::Graph &graph) const;
  ir::PieceSource *source_;
  const ir::OpCatalog *catalog_;
  std::unordered_map<std::string, ir::ForwardPiece> forwards_;
  std::unordered_map<std::string, ir::BackwardPiece> backwards_;
  PieceCounts counts_;
};

} // namespace graphopt::passes
