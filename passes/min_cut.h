// Minimum cut of a small directed graph with capacities, by Dinic's algorithm (E. A. Dinic, 1970).
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace graphopt::passes {

class FlowNetwork {
public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit FlowNetwork(size_t nodes) : edges_(nodes) {}
  void connect(size_t from, size_t to, int64_t capacity);
  /// By node: whether it stays on the side of `source` in a cut of least capacity between source and sink; of
  /// several such cuts, the one nearest the sink. Uses the network up.
  std::vector<bool> sourceSide(size_t source, size_t sink);

private:
  struct Edge {
    size_t to, back; // its reverse: edges_[to][back]
    int64_t capacity;
  };
  bool findLevels(size_t source, size_t sink);
  int64_t push(size_t node, size_t sink, int64_t limit);
  std::vector<std::vector<Edge>> edges_;
  std::vector<int> levels_;
  std::vector<size_t> next_;
};

} // namespace graphopt::passes
