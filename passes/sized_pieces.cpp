// Numbers are taken out of the graphs in one order, so that what remains can be compared as a whole.
#include "passes/sized_pieces.h"

#include "ir/compare.h"
#include "ir/print.h"
#include "passes/fixed_sizes.h"
#include "passes/piece_text.h"
#include "passes/size_fit.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace graphopt::passes {
namespace {

using Sample = std::vector<ir::SymValue>;
constexpr size_t kSamples = 3;
constexpr std::array<int64_t, 30> kPrimes = {11, 13,  17,  19,  23,  29,  31,  37,  41,  43,
                                             47, 53,  59,  61,  67,  71,  73,  79,  83,  89,
                                             97, 101, 103, 107, 109, 113, 127, 131, 137, 139};

/// Constants by which expressions over the sym are divided: multiples of them leave no rest.
void collectDivisors(const ir::Dim &dim, int64_t &multiple) {
  for (const ir::DimTerm &term : dim.terms())
    for (const ir::DimAtom &atom : term.atoms) {
      if (atom.kind == ir::DimAtom::Kind::Sym)
        continue;
      constexpr int64_t kMost = 4096;
      const ir::Dim &by = atom.args[1];
      if (by.isConstant() && by.value() > 0 && std::lcm(multiple, by.value()) <= kMost)
        multiple = std::lcm(multiple, by.value());
      collectDivisors(atom.args[0], multiple);
      collectDivisors(atom.args[1], multiple);
    }
}

bool usesSym(const ir::Dim &dim, const std::string &sym) {
  std::vector<std::string> names;
  dim.collectSyms(names);
  return std::ranges::find(names, sym) != names.end();
}

/// How samples lie to the numbers that expressions are divided by.
enum class Rests {
  Mixed, ///< some leave a rest: an expression that holds without one alone is found out
  None   ///< for operators that ask for that
};

int64_t within(const ir::DimRange &range, int64_t prime, int64_t wanted) {
  for (int64_t value : {wanted, prime})
    if (value >= range.lo && value <= range.hi)
      return value;
  if (range.hi == ir::DimRange::kInf)
    return range.lo + prime;
  return range.lo + prime % (range.hi - range.lo + 1);
}

/// All expressions of the unit, the types of the operands first.
std::vector<ir::Dim> dimsOf(const ir::Graph &unit) {
  std::vector<ir::Dim> dims;
  ir::Graph copy = unit.clone();
  changeDims(copy, [&](ir::Dim &dim) {
    if (!dim.isConstant() && std::ranges::find(dims, dim) == dims.end())
      dims.push_back(dim);
  });
  return dims;
}

void addDims(const ir::GradientTypes &types, std::vector<ir::Dim> &dims) {
  for (const std::optional<ir::Type> &type : types) {
    if (!type)
      continue;
    for (const std::vector<ir::Dim> &list : {type->sizes, type->stridesOrContiguous()})
      std::ranges::copy_if(list, std::back_inserter(dims), [&](const ir::Dim &dim) {
        return !dim.isConstant() && std::ranges::find(dims, dim) == dims.end();
      });
  }
}

/// The k-th sample of a sym.
int64_t sampleOf(const ir::DimRange &range, int64_t prime, int64_t multiple, size_t k, Rests rests) {
  if (rests == Rests::None || multiple == 1 || k == 0)
    return within(range, prime, prime * multiple);
  return within(range, prime, k == 1 ? prime : prime * multiple - 1);
}

std::vector<Sample> samplesOf(const std::vector<ir::Sym> &syms, const std::vector<ir::Dim> &dims,
                              Rests rests) {
  std::vector<Sample> samples(kSamples);
  for (size_t i = 0; i < syms.size(); ++i) {
    int64_t multiple = 1;
    for (const ir::Dim &dim : dims)
      if (usesSym(dim, syms[i].name))
        collectDivisors(dim, multiple);
    for (size_t k = 0; k < kSamples; ++k)
      samples[k].push_back(
          {syms[i].name,
           sampleOf(syms[i].range, kPrimes[(i * kSamples + k) % kPrimes.size()], multiple, k, rests)});
  }
  return samples;
}

ir::GradientTypes withSizes(const ir::GradientTypes &types, const Sample &sample) {
  ir::GradientTypes fixed;
  for (const std::optional<ir::Type> &type : types)
    fixed.push_back(type ? std::optional(passes::withSizes(*type, sample)) : std::nullopt);
  return fixed;
}

std::vector<ir::Value *> valuesOf(ir::Graph &graph) {
  std::vector<ir::Value *> values = graph.declarations();
  ir::walk(graph.body(),
           [&](ir::Op &op) { values.insert(values.end(), op.results().begin(), op.results().end()); });
  return values;
}

/// Where one run has a layout that needs strides, all say theirs.
void alignStrides(std::vector<ir::Graph> &runs) {
  std::vector<std::vector<ir::Value *>> values;
  for (ir::Graph &run : runs)
    values.push_back(valuesOf(run));
  for (size_t i = 0; i < values[0].size(); ++i) {
    const bool any =
        std::ranges::any_of(values, [&](const auto &of) { return of[i]->type.strides.has_value(); });
    for (const std::vector<ir::Value *> &of : values)
      if (any && !of[i]->type.strides)
        of[i]->type.strides = of[i]->type.stridesOrContiguous();
  }
}

/// The runs of one piece as one graph in `merged`; what is in the way, or nothing.
std::string merge(std::vector<ir::Graph> runs, SizeFit &fit, const std::vector<ir::Sym> &syms,
                  ir::Graph &merged) {
  const size_t count = valuesOf(runs[0]).size();
  if (std::ranges::any_of(runs, [&](ir::Graph &run) { return valuesOf(run).size() != count; }))
    return "it is made of other operators at other sizes";
  alignStrides(runs);
  std::vector<Samples> numbers;
  for (size_t k = 0; k < runs.size(); ++k) {
    size_t next = 0;
    changeDims(runs[k], [&](ir::Dim &dim) {
      if (k == 0)
        numbers.emplace_back();
      if (next < numbers.size() && dim.isConstant())
        numbers[next].push_back(dim.value());
      ++next;
      dim = ir::Dim(2); // neither 0 nor 1, which strides ask for
    });
    if (next != numbers.size())
      return "it is made of other operators at other sizes";
    if (const std::string difference = ir::difference(runs[0], runs[k]); !difference.empty())
      return fmt::format("it is made of other operators at other sizes ({})", difference);
  }
  std::string why;
  size_t next = 0;
  merged = std::move(runs[0]);
  changeDims(merged, [&](ir::Dim &dim) {
    const Samples &values = numbers[next++];
    if (const std::optional<ir::Dim> found = fit.fit(values))
      dim = ir::simplify(*found, syms);
    else
      why = fmt::format("a number in it is {}, which is no expression of its sizes", fmt::join(values, ", "));
  });
  return why;
}

/// A unit at three sizes: what it speaks of, and where.
class Sized {
public:
  ir::Graph unit; ///< without the syms that nothing here uses
  std::vector<ir::Dim> dims;

  Sized(const ir::Graph &symbolic, const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar)
      : unit(symbolic.clone()), dims(dimsOf(symbolic)) {
    addDims(cotangents, dims);
    addDims(soFar, dims);
    std::erase_if(unit.syms, [&](const ir::Sym &sym) {
      return std::ranges::none_of(dims, [&](const ir::Dim &dim) { return usesSym(dim, sym.name); });
    });
  }

  /// `ask` gives the piece of one sample, `note` takes over what is beside its graph and may set `opaque`.
  template <class Piece, class Ask, class Note> Piece piece(Ask &&ask, Note &&note) const {
    const std::vector<Sample> mixed = samplesOf(unit.syms, dims, Rests::Mixed),
                              whole = samplesOf(unit.syms, dims, Rests::None);
    bool isRefused = false; // by the operator itself
    Piece piece = pieceAt<Piece>(mixed, isRefused, ask, note);
    const bool areOther = !std::ranges::equal(mixed, whole, [](const Sample &a, const Sample &b) {
      return std::ranges::equal(a, b, {}, &ir::SymValue::value, &ir::SymValue::value);
    });
    return isRefused && areOther ? pieceAt<Piece>(whole, isRefused, ask, note) : std::move(piece);
  }

private:
  template <class Piece, class Ask, class Note>
  Piece pieceAt(const std::vector<Sample> &samples, bool &isRefused, Ask &&ask, Note &&note) const {
    Piece piece;
    std::vector<ir::Graph> runs;
    for (const Sample &sample : samples) {
      const Piece &one = ask(passes::withSizes(unit, sample), sample);
      piece.opaque = one.opaque;
      isRefused = !one.opaque.empty();
      note(piece, one, runs.empty());
      if (!piece.opaque.empty())
        return piece;
      runs.push_back(one.graph.clone());
    }
    std::vector<ir::Dim> known = dims;
    for (const ir::Sym &sym : unit.syms)
      known.push_back(ir::Dim::sym(sym.name));
    SizeFit fit(known, samples);
    piece.opaque = merge(std::move(runs), fit, unit.syms, piece.graph);
    return piece;
  }
};

void noteResults(ir::ForwardPiece &piece, const ir::ForwardPiece &one, bool isFirst) {
  const bool isOther = !isFirst && (one.results != piece.results || one.requiresGrad != piece.requiresGrad);
  piece.results = one.results;
  piece.requiresGrad = one.requiresGrad;
  if (isOther && piece.opaque.empty())
    piece.opaque = "its results differ at other sizes";
}

} // namespace

const ir::ForwardPiece &SizedPieces::forward(const ir::Graph &symbolic) {
  if (symbolic.syms.empty())
    return fixed_.forward(symbolic);
  const Sized sized(symbolic, {}, {});
  if (sized.unit.syms.empty())
    return fixed_.forward(sized.unit);
  const auto [entry, isNew] = forwards_.try_emplace(ir::print(sized.unit));
  if (isNew)
    entry->second = sized.piece<ir::ForwardPiece>(
        [&](const ir::Graph &unit, const Sample &) -> const auto & { return fixed_.forward(unit); },
        noteResults);
  return entry->second;
}

const ir::BackwardPiece &SizedPieces::backward(const ir::Graph &symbolic, const ir::GradientTypes &cotangents,
                                               const ir::GradientTypes &soFar) {
  if (symbolic.syms.empty())
    return fixed_.backward(symbolic, cotangents, soFar);
  const Sized sized(symbolic, cotangents, soFar);
  if (sized.unit.syms.empty())
    return fixed_.backward(sized.unit, cotangents, soFar);
  const auto [entry, isNew] = backwards_.try_emplace(ir::print(sized.unit) + givenText(cotangents, soFar));
  if (isNew)
    entry->second = sized.piece<ir::BackwardPiece>(
        [&](const ir::Graph &unit, const Sample &sample) -> const auto & {
          return fixed_.backward(unit, withSizes(cotangents, sample), withSizes(soFar, sample));
        },
        [](auto &, const auto &, bool) {});
  return entry->second;
}

} // namespace graphopt::passes
