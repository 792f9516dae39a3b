// Segments as values: their canonical form, comparison, cutting.
#include "capture/segment.h"

#include "capture/dim_marks.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace graphopt::capture {
namespace {

uint64_t mix(uint64_t hash, uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

bool isMarkedDynamic(const SegmentValue &value, size_t dim) {
  const DimMark *mark = markOf(value.marks, dim);
  return mark && mark->isDynamic;
}

/// Which of 0, 1 and larger a live-in's dim is, where that may not vary.
int64_t sizeClass(const SegmentValue &value, size_t dim) {
  int64_t size = value.metadata.sizes[dim];
  return value.isLiveIn && isSpecialSize(size) && !isMarkedDynamic(value, dim) ? size : 2;
}

/// Two hashes, made side by side: each waits for itself.
struct Hashes {
  uint64_t all, structure; // structure: without sizes and integers
  void add(uint64_t word) {
    all = mix(all, word);
    structure = mix(structure, word);
  }
  void add(const SegmentValue &value) {
    const Metadata &metadata = value.metadata;
    add(metadata.sizes.size());
    for (size_t dim = 0; dim < metadata.sizes.size(); ++dim) {
      all = mix(all, static_cast<uint64_t>(metadata.sizes[dim]));
      structure = mix(structure, static_cast<uint64_t>(sizeClass(value, dim)));
    }
    for (int64_t stride : metadata.strides)
      all = mix(all, static_cast<uint64_t>(stride));
    const auto dtype = static_cast<uint64_t>(metadata.dtype.toScalarType());
    add(metadata.keys.raw_repr());
    add(dtype << 2 | metadata.requiresGrad | static_cast<uint64_t>(metadata.isWrapped) << 1);
  }
};

/// The live-ins, known by the end of the row, of the families that it writes.
std::vector<ValueId> armedBy(const Segment &segment, const RowInfo &info, size_t valuesAfter) {
  std::vector<ValueId> armed;
  for (ValueId written : info.written)
    for (ValueId id : segment.liveIns)
      if (segment.values[id].family == segment.values[written].family &&
          static_cast<size_t>(id) < valuesAfter && std::find(armed.begin(), armed.end(), id) == armed.end())
        armed.push_back(id);
  return armed;
}

/// A view follows the operand that it was made of. Two live-ins of one memory may lie apart otherwise than
/// when they were recorded: that changes no row.
ValueId rootOf(const Segment &segment, const RowInfo &info, ValueId result) {
  ValueId family = segment.values[result].family;
  if (family == result)
    return result;
  for (const ValueIds &ids : info.operands)
    for (ValueId id : ids)
      if (id != 0 && segment.values[id].family == family)
        return segment.values[id].root;
  return segment.values[family].root;
}

bool isAmong(const std::vector<LateScalar> &scalars, size_t word) {
  return std::any_of(scalars.begin(), scalars.end(),
                     [&](const LateScalar &scalar) { return scalar.word == word; });
}
bool isLate(const RowInfo &info, size_t word) { return isAmong(info.late, word); }

/// A cast without history gives other results than one with. What only one of the two
/// rows names was kept before the other one ran: it says nothing.
bool sameCasts(const RowInfo &a, const RowInfo &b) {
  return std::ranges::none_of(a.weights, [&](const CastWeight &x) {
    return std::ranges::any_of(b.weights, [&](const CastWeight &y) {
      return x.value == y.value && x.isKept && y.isKept && x.hasHistory != y.hasHistory;
    });
  });
}

/// Late scalars may differ between equal rows (whether one is late depends on its value: 0 is not);
/// `integersToo`: so may integers.
bool sameRow(const Segment &a, const Segment &b, size_t i, bool integersToo) {
  const Row &x = a.rows[i], &y = b.rows[i];
  const RowInfo &p = a.infos[i], &q = b.infos[i];
  if (x.op != y.op || x.keys != y.keys || x.thread != y.thread || p.results != q.results ||
      p.words.size() != q.words.size() || p.valuesBefore != q.valuesBefore || !sameCasts(p, q))
    return false;
  for (size_t w = 0; w < p.words.size(); ++w)
    if (p.words[w] != q.words[w] && !(isLate(p, w) && isLate(q, w)) &&
        !(integersToo && isAmong(p.integers, w)))
      return false;
  return true;
}

bool sameValue(const SegmentValue &a, const SegmentValue &b) {
  return a.isLiveIn == b.isLiveIn && a.family == b.family && a.metadata == b.metadata;
}

bool sameValueStructure(const SegmentValue &a, const SegmentValue &b) {
  const Metadata &x = a.metadata, &y = b.metadata;
  if (a.isLiveIn != b.isLiveIn || a.family != b.family || x.sizes.size() != y.sizes.size() ||
      x.dtype != y.dtype || x.device != y.device || x.keys != y.keys || x.requiresGrad != y.requiresGrad ||
      x.isWrapped != y.isWrapped)
    return false;
  for (size_t dim = 0; dim < x.sizes.size(); ++dim)
    if (sizeClass(a, dim) != sizeClass(b, dim))
      return false;
  return true;
}

void addRow(Hashes &hashes, const Segment &segment, size_t i) {
  const RowInfo &info = segment.infos[i];
  hashes.add(reinterpret_cast<uintptr_t>(segment.rows[i].op));
  hashes.add(segment.rows[i].keys);
  hashes.add(segment.rows[i].thread);
  for (size_t w = 0; w < info.words.size(); ++w) {
    if (isLate(info, w))
      continue;
    hashes.all = mix(hashes.all, info.words[w]);
    if (!isAmong(info.integers, w))
      hashes.structure = mix(hashes.structure, info.words[w]);
  }
  for (size_t v = info.valuesBefore; v < segment.valuesBefore(i + 1); ++v)
    hashes.add(segment.values[v]);
}

bool sameRows(const Segment &a, const Segment &b, size_t count, bool integersToo,
              bool (*same)(const SegmentValue &, const SegmentValue &)) {
  size_t values = a.valuesBefore(count);
  if (values != b.valuesBefore(count))
    return false;
  for (size_t i = 0; i < count; ++i)
    if (!sameRow(a, b, i, integersToo))
      return false;
  return std::equal(a.values.begin(), a.values.begin() + static_cast<ptrdiff_t>(values), b.values.begin(),
                    same);
}

/// Takes rows from one segment into another, giving values new numbers in order of appearance.
class Slicer {
public:
  explicit Slicer(const Segment &source) : source_(source), numbers_(source.values.size(), 0) {
    result_.values.resize(1);
    result_.settings = source.settings;
    result_.device = source.device;
  }

  void take(const Row &row, const RowInfo &rowInfo) {
    RowInfo info = rowInfo;
    info.valuesBefore = result_.values.size();
    for (uint32_t position : info.tensorWords)
      info.words[position] = operandWord(valueOf(info.words[position]));
    for (ValueIds &operands : info.operands)
      renumber(operands);
    renumber(info.written);
    for (CastWeight &weight : info.weights)
      weight.value = number(weight.value, true);
    for (ValueId &id : info.results)
      id = number(id, false);
    result_.infos.push_back(std::move(info));
    result_.rows.push_back(row);
  }

  Segment finish() {
    result_.settle();
    return std::move(result_);
  }

private:
  Word operandWord(ValueId old) {
    bool isNew = old != 0 && numbers_[old] == 0;
    return static_cast<Word>(number(old, true)) | (isNew ? kFirstUse : 0);
  }
  template <class Ids> void renumber(Ids &ids) {
    for (ValueId &id : ids)
      id = number(id, true);
  }
  ValueId number(ValueId old, bool isOperand) {
    if (old == 0 || numbers_[old] != 0)
      return numbers_[old];
    auto id = static_cast<ValueId>(result_.values.size());
    SegmentValue value = source_.values[old];
    value.isLiveIn = isOperand;
    ValueId &family = families_[value.family];
    value.family = family == 0 ? family = id : family;
    if (isOperand)
      result_.liveIns.push_back(id);
    result_.values.push_back(std::move(value));
    return numbers_[old] = id;
  }

  const Segment &source_;
  Segment result_;
  std::vector<ValueId> numbers_; // by old number
  std::unordered_map<ValueId, ValueId> families_;
};

} // namespace

static void findLastUses(Segment &segment) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  std::vector<size_t> last(segment.values.size(), kNever);
  for (size_t i = 0; i < segment.infos.size(); ++i) {
    RowInfo &info = segment.infos[i];
    info.dying.clear();
    for (ValueId id : info.results)
      last[id] = i;
    for (const ValueIds &ids : info.operands)
      for (ValueId id : ids)
        last[id] = i;
  }
  for (size_t id = 1; id < last.size(); ++id)
    if (last[id] != kNever && !segment.values[id].isLiveIn)
      segment.infos[last[id]].dying.push_back(static_cast<ValueId>(id));
}

void Segment::settle() {
  findLastUses(*this);
  Hashes hashes{settings, settings};
  writesLiveIns = false;
  for (ValueId id : liveIns)
    values[id].root = id;
  for (size_t i = 0; i < rows.size(); ++i) {
    RowInfo &info = infos[i];
    info.prefixHash = hashes.all;
    info.prefixStructure = hashes.structure;
    for (ValueId result : info.results)
      if (static_cast<size_t>(result) >= info.valuesBefore)
        values[result].root = rootOf(*this, info, result);
    info.armed = armedBy(*this, info, valuesBefore(i + 1));
    rows[i].words = info.words.data();
    rows[i].results = info.results.data();
    rows[i].resultCount = static_cast<uint32_t>(info.results.size());
    rows[i].writesLiveIn = !info.armed.empty();
    rows[i].castsWeights = std::ranges::any_of(info.weights, &CastWeight::isKept);
    writesLiveIns |= rows[i].writesLiveIn;
    addRow(hashes, *this, i);
  }
  hash = hashes.all;
  structure = hashes.structure;
}

bool samePrefix(const Segment &a, const Segment &b, size_t count) {
  if (count > a.size() || count > b.size() || a.settings != b.settings)
    return false;
  if (count == 0)
    return true;
  if (a.infos[count - 1].prefixHash != b.infos[count - 1].prefixHash)
    return false;
  return sameRows(a, b, count, false, sameValue);
}

bool sameStructure(const Segment &a, const Segment &b, size_t count) {
  if (count > a.size() || count > b.size() || a.settings != b.settings)
    return false;
  if (count > 0 && a.infos[count - 1].prefixStructure != b.infos[count - 1].prefixStructure)
    return false;
  return sameRows(a, b, count, true, sameValueStructure);
}

Segment slice(const Segment &segment, size_t begin, size_t end) {
  Slicer slicer(segment);
  for (size_t i = begin; i < end; ++i)
    slicer.take(segment.rows[i], segment.infos[i]);
  Segment result = slicer.finish();
  result.border = end == segment.size() ? segment.border : "calls go different ways here";
  return result;
}

} // namespace graphopt::capture
