// Pieces kept: each unit is probed once. What probes give is brought into the lowered form here.
#pragma once
#include "ir/op_catalog.h"
#include "passes/piece_text.h"

#include <string>
#include <unordered_map>

namespace graphopt::passes {

struct PieceCounts {
  size_t found = 0, probed = 0; ///< forward and backward pieces asked for
};

/// Where pieces outlive the process, by the text of their unit. Neither call throws: what cannot be read is
/// not there, what cannot be written is found again by the next process.
class PieceStore {
public:
  virtual ~PieceStore() = default;
  virtual std::optional<std::string> read(const std::string &unit) = 0;
  virtual void write(const std::string &unit, const std::string &pieces) = 0;
};

/// Pieces by the text of their units. Graphs it gives are lowered: functional, with views explicit. Without a
/// source it knows what the store has and what was added.
class PieceBook final : public ir::PieceSource {
public:
  PieceBook(ir::PieceSource *source, const ir::OpCatalog *catalog, PieceStore *store = nullptr)
      : source_(source), catalog_(catalog), store_(store) {}
  const ir::ForwardPiece &forward(const ir::Graph &unit) override;
  const ir::BackwardPiece &backward(const ir::Graph &unit, const ir::GradientTypes &cotangents,
                                    const ir::GradientTypes &soFar) override;
  const PieceCounts &counts() const { return counts_; }

  /// What text() gave, here or elsewhere: these units are not probed. Throws a user error for other texts.
  void add(std::string_view file);
  /// All pieces known, sorted.
  std::string text() const;

private:
  using Known = std::pair<const std::string, UnitPieces>;
  Known &piecesOf(const ir::Graph &unit);
  std::string settle(ir::Graph &graph) const;
  void keep(const Known &known);
  ir::PieceSource *source_;
  const ir::OpCatalog *catalog_;
  PieceStore *store_;
  std::unordered_map<std::string, UnitPieces> units_;
  PieceCounts counts_;
};

} // namespace graphopt::passes
