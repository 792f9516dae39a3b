// Dinic's algorithm: shortest augmenting paths, level by level.
#include "passes/min_cut.h"

#include <algorithm>
#include <queue>

namespace graphopt::passes {

void FlowNetwork::connect(size_t from, size_t to, int64_t capacity) {
  edges_[from].push_back({to, edges_[to].size(), capacity});
  edges_[to].push_back({from, edges_[from].size() - 1, 0});
}

bool FlowNetwork::findLevels(size_t source, size_t sink) {
  levels_.assign(edges_.size(), -1);
  levels_[source] = 0;
  std::queue<size_t> open({source});
  while (!open.empty()) {
    const size_t node = open.front();
    open.pop();
    for (const Edge &edge : edges_[node])
      if (edge.capacity > 0 && levels_[edge.to] < 0) {
        levels_[edge.to] = levels_[node] + 1;
        open.push(edge.to);
      }
  }
  return levels_[sink] >= 0;
}

int64_t FlowNetwork::push(size_t node, size_t sink, int64_t limit) {
  if (node == sink)
    return limit;
  for (size_t &i = next_[node]; i < edges_[node].size(); ++i) {
    Edge &edge = edges_[node][i];
    if (edge.capacity <= 0 || levels_[edge.to] != levels_[node] + 1)
      continue;
    const int64_t pushed = push(edge.to, sink, std::min(limit, edge.capacity));
    if (pushed == 0)
      continue;
    edge.capacity -= pushed;
    edges_[edge.to][edge.back].capacity += pushed;
    return pushed;
  }
  return 0;
}

std::vector<bool> FlowNetwork::sourceSide(size_t source, size_t sink) {
  while (findLevels(source, sink)) {
    next_.assign(edges_.size(), 0);
    while (push(source, sink, kInfinite) > 0)
      ;
  }
  // What can still reach the sink is on its side; all else stays with the source.
  std::vector<bool> isSource(edges_.size(), true);
  isSource[sink] = false;
  std::queue<size_t> open({sink});
  while (!open.empty()) {
    const size_t node = open.front();
    open.pop();
    for (const Edge &edge : edges_[node]) // its reverse leads here
      if (isSource[edge.to] && edges_[edge.to][edge.back].capacity > 0) {
        isSource[edge.to] = false;
        open.push(edge.to);
      }
  }
  return isSource;
}

} // namespace graphopt::passes
