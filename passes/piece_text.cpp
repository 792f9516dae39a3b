// The unit's text is the key of its pieces, so it is never parsed: it ends where a line is "}".
#include "passes/piece_text.h"

#include "ir/parse.h"
#include "ir/print.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

constexpr std::string_view kUnit = "graph @unit ", kEnd = "\n}\n";

std::string typesText(const ir::GradientTypes &types) {
  std::string text;
  for (const std::optional<ir::Type> &type : types)
    text += (text.empty() ? "" : ",") + (type ? ir::toString(*type) : "none");
  return text;
}

bool fitsText(const ir::Graph &graph) {
  return std::ranges::all_of(graph.declarations(),
                             [](const ir::Value *value) { return value->contentHash.empty(); });
}

/// Under another name, and with words of the piece in its header.
std::string printAs(std::string name, const ir::Graph &piece, std::vector<ir::NamedAttr> words,
                    const std::string &opaque) {
  ir::Graph graph = opaque.empty() ? piece.clone() : ir::Graph();
  if (!graph.returnOp())
    graph.append(graph.body(), ir::Op::Kind::Return, "", {});
  graph.name = std::move(name);
  if (!opaque.empty())
    words.push_back({"opaque", ir::Attr::string(opaque)});
  std::ranges::move(words, std::back_inserter(graph.settings));
  return ir::print(graph);
}

/// Removes the word from the header; none when it is not there.
ir::Attr take(ir::Graph &graph, std::string_view name, ir::Attr::Kind kind) {
  auto found = std::ranges::find(graph.settings, name, &ir::NamedAttr::name);
  if (found == graph.settings.end())
    return {};
  if (found->value.kind() != kind)
    userError(fmt::format("in pieces, {}={} is not what that word takes: make them again with --save-pieces",
                          name, ir::toString(found->value)));
  ir::Attr value = std::move(found->value);
  graph.settings.erase(found);
  return value;
}

std::string takeText(ir::Graph &graph, std::string_view name) {
  const ir::Attr word = take(graph, name, ir::Attr::Kind::String);
  return word.isNone() ? "" : word.text();
}

ir::ForwardPiece forwardOf(ir::Graph graph) {
  ir::ForwardPiece piece;
  piece.opaque = takeText(graph, "opaque");
  if (const ir::Attr results = take(graph, "results", ir::Attr::Kind::Int); !results.isNone())
    piece.results = static_cast<size_t>(results.asInt());
  if (const ir::Attr flags = take(graph, "requires", ir::Attr::Kind::List); !flags.isNone())
    for (const ir::Attr &flag : flags.items())
      piece.requiresGrad.push_back(flag == ir::Attr::boolean(true));
  piece.graph = std::move(graph);
  return piece;
}

} // namespace

std::string givenText(const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar) {
  return typesText(cotangents) + "/" + typesText(soFar);
}

std::string print(const UnitPieces &pieces) {
  std::string text;
  if (const auto &forward = pieces.forward) {
    std::vector<ir::Attr> flags;
    for (const bool flag : forward->requiresGrad)
      flags.push_back(ir::Attr::boolean(flag));
    if (!fitsText(forward->graph))
      return "";
    text += printAs("forward", forward->graph,
                    {{"results", ir::Attr::integer(static_cast<int64_t>(forward->results))},
                     {"requires", ir::Attr::list(std::move(flags))}},
                    forward->opaque);
  }
  for (const auto &[given, piece] : pieces.backwards) {
    if (!fitsText(piece.graph))
      return "";
    text += printAs("backward", piece.graph, {{"given", ir::Attr::string(given)}}, piece.opaque);
  }
  return text;
}

UnitPieces parsePieces(const std::string &text) {
  ir::Diagnostics diagnostics("pieces", text);
  std::optional<std::vector<ir::Graph>> graphs = ir::parseGraphs(diagnostics);
  if (!graphs || diagnostics.hasErrors())
    userError("these pieces cannot be read: " + diagnostics.render());
  UnitPieces pieces;
  for (ir::Graph &graph : *graphs) {
    if (graph.name == "forward") {
      pieces.forward = forwardOf(std::move(graph));
      continue;
    }
    const std::string given = takeText(graph, "given");
    std::string opaque = takeText(graph, "opaque");
    pieces.backwards[given] = {std::move(opaque), std::move(graph)};
  }
  return pieces;
}

std::map<std::string, std::string> splitUnits(std::string_view file) {
  std::map<std::string, std::string> units;
  size_t at = file.find(kUnit);
  while (at != std::string_view::npos) {
    const size_t end = file.find(kEnd, at);
    if (end == std::string_view::npos)
      userError("a file of pieces ends within a unit: make it again with --save-pieces");
    const size_t pieces = end + kEnd.size();
    const size_t next = file.find(kUnit, pieces);
    units.emplace(file.substr(at, pieces - at),
                  file.substr(pieces, next == std::string_view::npos ? next : next - pieces));
    at = next;
  }
  return units;
}

} // namespace graphopt::passes
