// Lowered form: what an operator writes of its own tensors inside becomes functional as in a captured graph;
// a write to an operand means that the schema hid it, and the operator cannot stand in a functional graph.
#include "passes/piece_book.h"

#include "ir/print.h"
#include "passes/pass_list.h"

#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

/// Why the graph is not in lowered form; empty when it is.
std::string trouble(const ir::Graph &graph) {
  for (const auto &op : graph.body())
    if (op->kind == ir::Op::Kind::Writeback)
      return "it writes an operand, which its schema does not say";
  return "";
}

constexpr const char *kUnknown = "it is in no file of pieces, and nothing here can run it";

} // namespace

std::string PieceBook::settle(ir::Graph &graph) const {
  PassContext context;
  context.catalog = catalog_;
  try {
    functionalize(graph, context);
    graph.stage = ir::Stage::Lowered;
    canonicalize(graph, context);
  } catch (const Error &error) {
    return fmt::format("what it does inside has no functional form: {}", error.what());
  }
  return trouble(graph);
}

PieceBook::Known &PieceBook::piecesOf(const ir::Graph &unit) {
  const auto [known, isNew] = units_.try_emplace(ir::print(unit));
  if (!isNew || !store_)
    return *known;
  if (const std::optional<std::string> text = store_->read(known->first))
    try {
      known->second = parsePieces(*text);
    } catch (const Error &) {
      known->second = {}; // of another version
    }
  return *known;
}

void PieceBook::keep(const Known &known) {
  if (!store_)
    return;
  if (const std::string text = print(known.second); !text.empty())
    store_->write(known.first, text);
}

const ir::ForwardPiece &PieceBook::forward(const ir::Graph &unit) {
  Known &known = piecesOf(unit);
  std::optional<ir::ForwardPiece> &piece = known.second.forward;
  if (piece) {
    ++counts_.found;
    return *piece;
  }
  piece.emplace().opaque = kUnknown;
  if (!source_)
    return *piece;
  ++counts_.probed;
  const ir::ForwardPiece &probed = source_->forward(unit);
  *piece = {probed.opaque, probed.graph.clone(), probed.results, probed.requiresGrad};
  if (piece->opaque.empty())
    piece->opaque = settle(piece->graph);
  keep(known);
  return *piece;
}

const ir::BackwardPiece &PieceBook::backward(const ir::Graph &unit, const ir::GradientTypes &cotangents,
                                             const ir::GradientTypes &soFar) {
  Known &known = piecesOf(unit);
  const auto [entry, isNew] = known.second.backwards.try_emplace(givenText(cotangents, soFar));
  ir::BackwardPiece &piece = entry->second;
  if (!isNew) {
    ++counts_.found;
    return piece;
  }
  piece.opaque = kUnknown;
  if (!source_)
    return piece;
  ++counts_.probed;
  const ir::BackwardPiece &probed = source_->backward(unit, cotangents, soFar);
  piece = {probed.opaque, probed.graph.clone()};
  if (piece.opaque.empty())
    piece.opaque = settle(piece.graph);
  keep(known);
  return piece;
}

void PieceBook::add(std::string_view file) {
  for (const auto &[unit, pieces] : splitUnits(file))
    units_[unit] = parsePieces(pieces);
}

std::string PieceBook::text() const {
  std::map<std::string_view, const UnitPieces *> sorted;
  for (const auto &[unit, pieces] : units_)
    sorted[unit] = &pieces;
  std::string text;
  for (const auto &[unit, pieces] : sorted)
    if (const std::string graphs = print(*pieces); !graphs.empty())
      text += std::string(unit) + graphs;
  return text;
}

} // namespace graphopt::passes
