// The trace graph of one compiled callable: its segments, and where calls went from each.
//
// Segments share starts: two that begin alike are alternatives, told apart by the first operator in which
// they differ. A point where calls went different ways twice becomes a border: all segments through it are
// cut there, and equal remainders become one segment. So loops are cycles, and k decisions of the host make
// O(k) segments.
#pragma once
#include "capture/segment.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace graphopt::capture {

struct SegmentNode {
  Segment segment;
  bool isCut =
      false; ///< ends at a border where calls go different ways: longer segments through it are cut too
  std::atomic<uint64_t> visits{0};
  std::atomic<bool> isRetired{false};           ///< was cut or forgotten: calls in flight finish with it
  std::map<const SegmentNode *, uint64_t> next; ///< guarded by the graph; null: the call ended
  std::string reason;                           ///< why it was recorded although others existed
};
using SegmentPtr = std::shared_ptr<SegmentNode>;

class TraceGraph {
public:
  /// At most `starts` recordings that begin at one point (after one segment, with one operator), and so many
  /// segments in all.
  explicit TraceGraph(size_t starts, size_t segments = 1024) : maxStarts_(starts), maxSegments_(segments) {}

  /// The segments whose first row is a call of the operator, the likeliest first.
  std::vector<SegmentPtr> startingWith(const void *op, const SegmentNode *after) const;
  /// Segments other than `segment` that have its first `rows` rows, and more.
  std::vector<SegmentPtr> alternatives(const SegmentPtr &segment, size_t rows) const;
  /// The segment that the first rows of another are; null when there is none.
  SegmentPtr exactly(const SegmentPtr &segment, size_t rows) const;
  /// Whether one more segment may be recorded that begins with the operator, after `after`. Counts it.
  bool mayRecord(const SegmentNode *after, const void *op);
  /// Takes a recorded segment in: cut at known borders, and dropped where an equal one exists. The pieces in
  /// order.
  std::vector<SegmentPtr> insert(Segment segment, std::string reason);
  /// A call left the segment's path after `rows` rows, by another operator than those known there (or by one
  /// of them). The second time the point becomes a border.
  void noteBranch(const SegmentPtr &segment, size_t rows);
  void noteVisit(const SegmentNode *from, const SegmentNode *to);
  void clear();

  std::vector<SegmentPtr> segments() const;
  std::map<const SegmentNode *, uint64_t> successors(const SegmentNode *node) const;
  /// Changes when segments are cut or forgotten.
  uint64_t generation() const { return generation_; }

private:
  SegmentPtr add(Segment segment, bool isCut, std::string reason);
  void cutAll(const SegmentPtr &through, size_t rows);
  void remove(const SegmentPtr &node);

  const size_t maxStarts_, maxSegments_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void *, std::vector<SegmentPtr>> starts_; // by first operator
  std::vector<SegmentPtr> all_;
  std::unordered_map<uint64_t, int> branches_;                                // by prefix hash
  std::map<std::pair<const SegmentNode *, const void *>, size_t> recordings_; // by point
  std::map<const SegmentNode *, uint64_t> entries_; // successors of the call's beginning
  std::atomic<uint64_t> generation_{0};
  int numbers_ = 0;
};

} // namespace graphopt::capture
