// The trace graph of one compiled callable: its segments, and where calls went from each.
//
// Segments share starts: two that begin alike are alternatives, told apart by the first operator in which
// they differ. A point where calls went different ways twice becomes a border: all segments through it are
// cut there, and equal remainders become one segment. So loops are cycles, and k decisions of the host make
// O(k) segments.
#pragma once
#include "capture/segment.h"

#include <graphopt/options.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

namespace graphopt::capture {

/// What was seen to differ between segments of one structure, so that calls may differ in it again.
struct Varying {
  struct Integer {
    uint32_t row = 0, word = 0;
    bool operator==(const Integer &) const = default;
  };
  struct Dim {
    ValueId value = 0; ///< a live-in
    uint32_t dim = 0;
    bool operator==(const Dim &) const = default;
  };
  std::vector<Integer> integers;
  std::vector<Dim> dims;
};

struct SegmentNode;
using SegmentPtr = std::shared_ptr<SegmentNode>;

/// Segments that differ in sizes and integers alone. Some were recorded; others were derived from one of
/// those when a call brought new sizes, without being recorded. Guarded by the graph.
struct Family {
  std::shared_ptr<const Varying> varying = std::make_shared<Varying>();
  std::vector<SegmentPtr> derived;
  std::deque<uint64_t> recentSizes; ///< hashes
};

/// What verify runs have shown; shared by a recorded segment and those derived from it.
struct Verification {
  std::atomic<size_t> rows{0};        ///< so many of its rows have been in one
  std::atomic<bool> isRefuted{false}; ///< not to be shadowed again: see TraceGraph::refute
  std::string refutation;             ///< guarded by the graph; set with isRefuted
};

struct SegmentNode {
  Segment segment;
  std::shared_ptr<Verification> verification = std::make_shared<Verification>();
  std::shared_ptr<Family> family;
  bool isDerived = false;                                   ///< worked out from a recorded one
  int derivedFrom = -1;                                     ///< number of the recorded one
  std::weak_ptr<SegmentNode> base;                          ///< the recorded one
  std::unique_ptr<std::atomic<ShapeSource>[]> shapeSources; ///< of a recorded one, by row: found when needed
  std::atomic<uint64_t> lastVisit{0};
  bool isCut =
      false; ///< ends at a border where calls go different ways: longer segments through it are cut too
  std::atomic<uint64_t> visits{0};
  std::atomic<bool> isRetired{false};           ///< was cut or forgotten: calls in flight finish with it
  std::map<const SegmentNode *, uint64_t> next; ///< guarded by the graph; null: the call ended
  std::string reason;                           ///< why it was recorded although others existed
  bool isRefuted() const { return verification->isRefuted; }
};

/// A recorded segment, with what may differ from it.
struct Template {
  SegmentPtr base;
  std::shared_ptr<const Varying> varying;
};

class TraceGraph {
public:
  /// At most `starts` recordings that begin at one point (after one segment, with one operator), and so many
  /// segments in all.
  explicit TraceGraph(size_t starts, Dynamic dynamic = Dynamic::automatic, size_t segments = 1024)
      : maxStarts_(starts), maxSegments_(segments), dynamic_(dynamic) {}

  /// The segments whose first row is a call of the operator, the likeliest first.
  std::vector<SegmentPtr> startingWith(const void *op, const SegmentNode *after) const;
  /// Segments other than `segment` that have its first `rows` rows, and more.
  std::vector<SegmentPtr> alternatives(const SegmentPtr &segment, size_t rows) const;
  /// The segment that the first rows of another are; null when there is none.
  SegmentPtr exactly(const SegmentPtr &segment, size_t rows) const;
  std::shared_ptr<const Varying> varyingOf(const SegmentPtr &recorded) const;
  /// Of each family whose segments begin with the operator, one.
  std::vector<Template> templates(const void *op) const;
  /// Of each family that has the segment's first rows but for sizes and integers, and then a call of the
  /// operator, one.
  std::vector<Template> templatesLike(const Segment &segment, size_t rows, const void *op) const;
  /// A segment of other sizes was derived from a recorded one. Those that come a second time are taken in, so
  /// that calls find them as they find recorded ones.
  void noteDerived(const Segment &derived, const SegmentPtr &base);
  Dynamic dynamic() const { return dynamic_; }
  /// Whether one more segment may be recorded that begins with the operator, after `after`.
  bool mayRecord(const SegmentNode *after, const void *op) const;
  /// One was.
  void noteRecording(const SegmentNode *after, const void *op);
  /// Takes a recorded segment in: cut at known borders, and dropped where an equal one exists. The pieces in
  /// order.
  std::vector<SegmentPtr> insert(Segment segment, std::string reason);
  /// A call left the segment's path after `rows` rows, by another operator than those known there (or by one
  /// of them). The second time the point becomes a border.
  void noteBranch(const SegmentPtr &segment, size_t rows);
  void noteVisit(const SegmentNode *from, const SegmentNode *to);
  void clear();
  /// What became dynamic since this was last asked, for people.
  std::vector<std::string> takeNews();

  /// The segment is not what the program does, and is never shadowed again. With the operator that is to
  /// blame: it is never put off again by calls of this graph, so that all segments with it are forgotten;
  /// else operators of calls that begin like the segment run as they are.
  void refute(const SegmentPtr &node, const OperatorFacts *liar, const std::string &reason);
  /// Whether refute() named the operator, whatever was forgotten since.
  bool isLiar(const OperatorFacts &facts) const;

  std::vector<SegmentPtr> segments() const;
  std::string refutationOf(const SegmentNode &node) const;
  std::map<const SegmentNode *, uint64_t> successors(const SegmentNode *node) const;
  /// Changes when segments are cut or forgotten.
  uint64_t generation() const { return generation_; }

private:
  SegmentPtr add(Segment segment, bool isCut, std::string reason);
  SegmentPtr addRecorded(Segment segment, bool isCut, std::string reason);
  void join(const SegmentPtr &node);
  void dropLeastUsed(Family &family);
  void noteVarying(Family &family, const Segment &a, const Segment &b);
  void cutAll(const SegmentPtr &through, size_t rows);
  void remove(const SegmentPtr &node);
  bool hasLiar(const Segment &segment) const;

  const size_t maxStarts_, maxSegments_;
  const Dynamic dynamic_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void *, std::vector<SegmentPtr>> starts_; // by first operator
  std::vector<SegmentPtr> all_;
  std::unordered_map<uint64_t, int> branches_;                     // by the structure before it
  std::map<std::pair<uint64_t, const void *>, size_t> recordings_; // by structure before, operator
  std::vector<std::string> news_;
  uint64_t visits_ = 0;
  std::map<const SegmentNode *, uint64_t> entries_; // successors of the call's beginning
  std::set<const OperatorFacts *> liars_;
  std::atomic<uint64_t> generation_{0};
  int numbers_ = 0;
};

} // namespace graphopt::capture
