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

int64_t within(const ir::DimRange &range, int64_t prime, int64_t multiple) {
  for (int64_t value : {prime * multiple, prime})
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

std::vector<Sample> samplesOf(const std::vector<ir::Sym> &syms, const std::vector<ir::Dim> &dims) {
  std::vector<Sample> samples(kSamples);
  for (size_t i = 0; i < syms.size(); ++i) {
    int64_t multiple = 1;
    for (const ir::Dim &dim : dims)
      if (usesSym(dim, syms[i].name))
        collectDivisors(dim, multiple);
    for (size_t k = 0; k < kSamples; ++k)
      samples[k].push_back(
          {syms[i].name, within(syms[i].range, kPrimes[(i * kSamples + k) % kPrimes.size()], multiple)});
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

/// The unit without the syms that it does not speak of.
ir::Graph withOwnSyms(const ir::Graph &unit, const std::vector<ir::Dim> &dims) {
  ir::Graph own = unit.clone();
  std::erase_if(own.syms, [&](const ir::Sym &sym) {
    return std::ranges::none_of(dims, [&](const ir::Dim &dim) { return usesSym(dim, sym.name); });
  });
  return own;
}

std::vector<ir::Dim> withSyms(std::vector<ir::Dim> dims, const std::vector<ir::Sym> &syms) {
  for (const ir::Sym &sym : syms)
    dims.push_back(ir::Dim::sym(sym.name));
  return dims;
}

} // namespace

const ir::ForwardPiece &SizedPieces::forward(const ir::Graph &symbolic) {
  const std::vector<ir::Dim> dims = dimsOf(symbolic);
  const ir::Graph unit = withOwnSyms(symbolic, dims);
  if (unit.syms.empty())
    return fixed_.forward(unit);
  const auto [entry, isNew] = forwards_.try_emplace(ir::print(unit));
  ir::ForwardPiece &piece = entry->second;
  if (!isNew)
    return piece;
  const std::vector<Sample> samples = samplesOf(unit.syms, dims);
  std::vector<ir::Graph> runs;
  for (const Sample &sample : samples) {
    const ir::ForwardPiece &one = fixed_.forward(passes::withSizes(unit, sample));
    const bool isOther =
        !runs.empty() && (one.results != piece.results || one.requiresGrad != piece.requiresGrad);
    piece.results = one.results;
    piece.requiresGrad = one.requiresGrad;
    piece.opaque = isOther && one.opaque.empty() ? "its results differ at other sizes" : one.opaque;
    if (!piece.opaque.empty())
      return piece;
    runs.push_back(one.graph.clone());
  }
  SizeFit fit(withSyms(dims, unit.syms), samples);
  piece.opaque = merge(std::move(runs), fit, unit.syms, piece.graph);
  return piece;
}

const ir::BackwardPiece &SizedPieces::backward(const ir::Graph &symbolic, const ir::GradientTypes &cotangents,
                                               const ir::GradientTypes &soFar) {
  std::vector<ir::Dim> dims = dimsOf(symbolic);
  addDims(cotangents, dims);
  addDims(soFar, dims);
  const ir::Graph unit = withOwnSyms(symbolic, dims);
  if (unit.syms.empty())
    return fixed_.backward(unit, cotangents, soFar);
  const auto [entry, isNew] = backwards_.try_emplace(ir::print(unit) + givenText(cotangents, soFar));
  ir::BackwardPiece &piece = entry->second;
  if (!isNew)
    return piece;
  const std::vector<Sample> samples = samplesOf(unit.syms, dims);
  std::vector<ir::Graph> runs;
  for (const Sample &sample : samples) {
    const ir::BackwardPiece &one = fixed_.backward(passes::withSizes(unit, sample),
                                                   withSizes(cotangents, sample), withSizes(soFar, sample));
    piece.opaque = one.opaque;
    if (!piece.opaque.empty())
      return piece;
    runs.push_back(one.graph.clone());
  }
  SizeFit fit(withSyms(dims, unit.syms), samples);
  piece.opaque = merge(std::move(runs), fit, unit.syms, piece.graph);
  return piece;
}

} // namespace graphopt::passes
