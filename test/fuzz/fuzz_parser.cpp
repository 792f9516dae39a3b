// Any bytes: the parser ends without a crash and either explains itself or gives graphs. Graphs that it gives
// are printed, read again, and must be equal in structure, names, hash and text.
#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"

#include <cstdio>
#include <cstdlib>
#include <graphopt/error.h>

using namespace graphopt::ir;

namespace {
void require(bool holds, const char *what, const std::string &text) {
  if (holds)
    return;
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

/// Sizes beyond 64 bits are the user's mistake and may be thrown; anything else is ours.
void judge(const Graph &graph) {
  Diagnostics diagnostics;
  try {
    verify(graph, diagnostics);
  } catch (const graphopt::Error &error) {
    require(error.kind() == graphopt::Error::Kind::User, error.what(), print(graph));
  }
  diagnostics.render();
}

std::string printed(const std::vector<Graph> &graphs) {
  std::string out;
  for (const Graph &graph : graphs)
    out += print(graph);
  return out;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Diagnostics first("fuzz.gir", std::string(reinterpret_cast<const char *>(data), size));
  std::optional<std::vector<Graph>> graphs = parseGraphs(first);
  require(graphs.has_value() != first.hasErrors(), "graphs and errors", first.render());
  require(graphs || !first.render().empty(), "refused without a word", first.source());
  if (!graphs)
    return 0;
  std::string text = printed(*graphs);
  Diagnostics second("printed.gir", text);
  std::optional<std::vector<Graph>> again = parseGraphs(second);
  require(again.has_value(), "the printed text does not parse", text + second.render());
  require(again->size() == graphs->size(), "another number of graphs", text);
  require(printed(*again) == text, "another text", text + printed(*again));
  for (size_t i = 0; i < graphs->size(); ++i) {
    const Graph &a = graphs->at(i), &b = again->at(i);
    std::string found = difference(a, b, {.names = true});
    require(found.empty(), "another graph", found + "\n" + text);
    require(structuralHash(a) == structuralHash(b), "another hash", text);
    judge(a);
    require(difference(a, a.clone(), {.names = true}).empty(), "another clone", text);
  }
  return 0;
}
