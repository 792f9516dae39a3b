// A segment: what the host called between two points where it needed a true value. Rows to compare later
// calls with, and to run.
//
// Values are numbered in order of appearance; 0 is the undefined tensor. A value not made by the segment's
// own rows is a live-in: an argument, a parameter, a result of an earlier segment, somebody else's tensor,
// all alike: bound anew at each visit, by its first use. So a segment does not depend on how it was reached,
// and two segments are the same exactly when their rows and their values' metadata are.
#pragma once
#include "capture/operator_facts.h"
#include "capture/placeholder.h"
#include "capture/settings.h"

#include <ATen/core/ivalue.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

namespace graphopt::capture {

/// Arguments of a call as words, compared one by one. A tensor is its value's number; a number its bits; a
/// list its length and its items; a Scalar its kind and its bits.
using Word = uint64_t;
/// On a live-in's first use: any tensor with the right metadata may be bound.
inline constexpr Word kFirstUse = 1ull << 40;
inline constexpr Word kNoneWord = 0x7ff8'dead'0000'0001ull;
inline ValueId valueOf(Word word) { return static_cast<ValueId>(word & 0xffff'ffffu); }

/// The thread's state that decides what an operator does, packed; see ThreadProbe.
using ThreadWord = uint32_t;

/// What a match looks at, in one cache line.
struct Row {
  const void *op = nullptr; ///< address of the operator's name
  uint64_t keys = 0;        ///< dispatch keys of the call, below ours
  const Word *words = nullptr;
  const ValueId *results = nullptr;
  ThreadWord thread = 0;
  uint32_t resultCount = 0;
  bool isFactory = false;    ///< no tensor argument: its result is handed out with the only reference
  bool writesLiveIn = false; ///< RowInfo::written
  bool isRandom = false;
  bool castsWeights = false; ///< some cast of RowInfo::weights is kept
};

/// A live-in of which autocast would have kept a cast (kept_casts.h) in the recorded call.
struct CastWeight {
  ValueId value = 0;
  bool isKept = false;     ///< it had kept one when the row had run: the row may take it
  bool hasHistory = false; ///< the cast: LibTorch 2.11 gives each one, others none under no_grad
};

/// A word that may differ between calls.
struct LateScalar {
  uint32_t word = 0;     ///< position among the row's words
  uint32_t argument = 0; ///< schema position
};

/// What the user said of a dim: markDynamic(), markStatic().
struct DimMark {
  uint32_t dim = 0;
  bool isDynamic = false;
  int64_t least = 0, most = 0; ///< of a dynamic one
};

/// The tensors in one argument: most often one.
using ValueIds = c10::SmallVector<ValueId, 2>;

/// The rest of a row.
struct RowInfo {
  std::optional<c10::OperatorHandle> op;
  const OperatorFacts *facts = nullptr;
  std::vector<Word> words;
  std::vector<ValueId> results;       ///< 0: undefined
  std::vector<c10::IValue> arguments; ///< in schema order; tensors and lists of them are none
  std::vector<ValueIds> operands;     ///< by argument: the tensors in it
  std::vector<uint32_t> tensorWords;  ///< positions of the words that are values
  std::vector<LateScalar> late;       ///< floats that may differ at each call
  std::vector<LateScalar> integers;   ///< ints and bools that may vary once they were seen to
  std::vector<ValueId> written;       ///< operands written
  std::vector<ValueId> armed;         ///< live-ins whose memory those writes change
  std::vector<CastWeight> weights;    ///< among the operands
  std::vector<ValueId> dying;         ///< values, no live-ins, that no later row takes
  size_t valuesBefore = 0;            ///< values known before the row
  uint64_t prefixHash = 0;            ///< of all rows before this one
  uint64_t prefixStructure = 0;       ///< the same without sizes and integers
  c10::impl::LocalDispatchKeySet keys{c10::impl::PODLocalDispatchKeySet{}}; ///< the thread's, without ours
  c10::AutogradState autograd{false, false, false, false};
  std::string module; ///< path, for people
};

/// Where the metadata of a row's results comes from when operands differ from the recorded ones; see
/// shapes.h.
enum class ShapeSource : uint8_t { Unknown, None, InPlace, Rule, Meta, MetaSizes };

struct SegmentValue {
  Metadata metadata;
  bool isLiveIn = false;
  ValueId family = 0; ///< the first value with the same memory
  ValueId root = 0;   ///< of a view that the rows make: the value whose offset moves its own; else the value
  std::string name;   ///< of a parameter or an argument; else empty
  bool isParameter = false, isBuffer = false;
  std::vector<DimMark> marks; ///< of a live-in
};

struct Segment {
  std::vector<Row> rows;
  std::vector<RowInfo> infos;       // one a row
  std::vector<SegmentValue> values; // [0]: undefined
  std::vector<ValueId> liveIns;     // in order of first use
  SettingsId settings = 0;
  c10::Device device{c10::kCPU}; ///< whose autocast state rows mean; else where most of it runs
  bool writesLiveIns = false;
  uint64_t hash = 0;      ///< of all rows
  uint64_t structure = 0; ///< the same without sizes and integers
  int number = 0;         ///< in the trace graph; for people
  std::string border;     ///< why it ended when it was recorded; empty: the call ended

  size_t size() const { return rows.size(); }
  /// Values [0, n) are known before the row runs; after all rows, all are.
  size_t valuesBefore(size_t row) const {
    return row < infos.size() ? infos[row].valuesBefore : values.size();
  }
  /// Fills in what follows from infos and values: rows, hashes, the live-ins written.
  void settle();
};

/// Equal rows [0, count) and metadata of the values in them.
bool samePrefix(const Segment &a, const Segment &b, size_t count);
/// The same but for integers, and for sizes and strides: ranks are equal, and a live-in's dim of size 0 or 1
/// is one in both, unless it was marked dynamic.
bool sameStructure(const Segment &a, const Segment &b, size_t count);
/// Rows [begin, end) as a segment of its own: values made before `begin` become live-ins.
Segment slice(const Segment &segment, size_t begin, size_t end);

} // namespace graphopt::capture
