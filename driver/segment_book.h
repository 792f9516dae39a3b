// The compiled segments of one callable, by segment and by which of its results are wanted.
#pragma once
#include "driver/compiled_segment.h"

#include <deque>
#include <map>
#include <mutex>

namespace graphopt::driver {

/// What became of segments with gradients.
struct SegmentBookFacts {
  uint64_t compiled = 0; ///< plans made
  uint64_t runs = 0;     ///< of plans
  uint64_t again = 0;    ///< backwards that no plan was made for: the operators ran again, through autograd
  std::map<std::string, uint64_t> reasons; ///< why others went through autograd's own nodes, with counts
  std::map<std::string, uint64_t> opaque;  ///< operators in plans that were not taken apart, and why
};

class SegmentBook {
public:
  explicit SegmentBook(PlanChoices choices) : choices_(choices) {}
  /// Runs the segment by its plan, made when it is first asked for. False, with nothing run: its rows have to
  /// run one by one. Safe from many threads.
  bool run(const capture::SegmentRun &run);
  SegmentBookFacts facts() const;
  void clear();

private:
  using Compiled = std::shared_ptr<const CompiledSegment>;
  /// The plans for one kind of backward.
  struct Plans {
    Compiled segment;                      ///< for the recorded sizes; null: it cannot be compiled
    std::vector<Compiled> sized;           ///< for others, the newest first
    std::vector<capture::Segment> members; ///< whose sizes made those
    std::string reason, sizedReason;       ///< why there is none
  };
  /// Of a recorded segment, and those of its family that were derived from it.
  struct Entry {
    std::weak_ptr<capture::SegmentNode> node; ///< an address may come back
    std::optional<ResultVersions> versions;   ///< seen in a run through autograd
    std::shared_ptr<LastBackward> last;
    std::map<BackwardKey, Plans> plans; ///< by the last backward: the next is likely the same
  };
  struct Found {
    bool isObserved = false;
    std::shared_ptr<LastBackward> last;
    Compiled segment; ///< null: none holds for the run
    std::vector<ir::SymValue> syms;
    std::string reason;
  };
  using Key = std::pair<const capture::SegmentNode *, std::vector<uint8_t>>;
  Found find(const capture::SegmentRun &run, const capture::SegmentPtr &recorded);
  Found findSized(const capture::SegmentRun &run, const capture::SegmentPtr &recorded, const Entry &entry,
                  const BackwardKey &key, Plans &plans);
  static BackwardKey keyOf(const Entry &entry);
  void observe(const capture::SegmentRun &run, const capture::SegmentPtr &recorded,
               const std::shared_ptr<LastBackward> &last);
  Compiled compile(const capture::SegmentRun &run, const capture::SegmentPtr &recorded, const Entry &entry,
                   const BackwardKey &key, const std::vector<const capture::Segment *> &others,
                   std::string &reason);
  void count(const std::string &reason);

  const PlanChoices choices_;
  mutable std::mutex mutex_; // guards all below
  std::map<Key, Entry> entries_;
  std::map<capture::SettingsId, Lowering> lowerings_; // pieces hold for the switches they were found under
  SegmentBookFacts facts_;
};

} // namespace graphopt::driver
