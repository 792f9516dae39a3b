// Lowered form: what an operator writes of its own tensors inside becomes functional as in a captured graph;
// a write to an operand means that the schema hid it, and the operator cannot stand in a functional graph.
#include "passes/piece_book.h"

#include "ir/print.h"
#include "passes/pass_list.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

std::string keyOf(const ir::GradientTypes &types) {
  std::string key;
  for (const std::optional<ir::Type> &type : types)
    key += (type ? ir::toString(*type) : "none") + ";";
  return key;
}

/// Why the graph is not in lowered form; empty when it is.
std::string trouble(const ir::Graph &graph) {
  for (const auto &op : graph.body())
    if (op->kind == ir::Op::Kind::Writeback)
      return "it writes an operand, which its schema does not say";
  return "";
}

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

const ir::ForwardPiece &PieceBook::forward(const ir::Graph &unit) {
  std::string key = ir::print(unit);
  auto known = forwards_.find(key);
  if (known != forwards_.end()) {
    ++counts_.found;
    return known->second;
  }
  ir::ForwardPiece piece;
  piece.opaque = "it is in no file of pieces, and nothing here can run it";
  if (source_) {
    ++counts_.probed;
    const ir::ForwardPiece &probed = source_->forward(unit);
    piece = {probed.opaque, probed.graph.clone(), probed.results, probed.requiresGrad};
  }
  if (piece.opaque.empty())
    piece.opaque = settle(piece.graph);
  return forwards_.emplace(std::move(key), std::move(piece)).first->second;
}

const ir::BackwardPiece &PieceBook::backward(const ir::Graph &unit, const ir::GradientTypes &cotangents,
                                             const ir::GradientTypes &soFar) {
  std::string key = ir::print(unit) + keyOf(cotangents) + "/" + keyOf(soFar);
  auto known = backwards_.find(key);
  if (known != backwards_.end()) {
    ++counts_.found;
    return known->second;
  }
  ir::BackwardPiece piece;
  piece.opaque = "it is in no file of pieces, and nothing here can run it";
  if (source_) {
    ++counts_.probed;
    const ir::BackwardPiece &probed = source_->backward(unit, cotangents, soFar);
    piece = {probed.opaque, probed.graph.clone()};
  }
  if (piece.opaque.empty())
    piece.opaque = settle(piece.graph);
  return backwards_.emplace(std::move(key), std::move(piece)).first->second;
}

} // namespace graphopt::passes
