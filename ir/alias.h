// Which values share memory, from the & marks: families of views and the chain of views from the base.
#pragma once
#include "ir/graph.h"

#include <unordered_map>
#include <vector>

namespace graphopt::ir {

/// One step from a value to a view of it.
struct ViewStep {
  const Op *op;       ///< the view op, with exactly one & operand
  size_t result = 0;  ///< which of its results
};

class AliasInfo {
public:
  explicit AliasInfo(const Graph &graph);
  /// The value the view chain starts from: a declaration, or a result that aliases nothing. `value` itself when it is
  /// no view.
  const Value *base(const Value *value) const;
  /// The views from base(value) to value, first step first; empty for a base.
  std::vector<ViewStep> chain(const Value *value) const;
  /// True when writing one may change the other (same base).
  bool mayAlias(const Value *a, const Value *b) const;
  /// Every value of the family of `value`, base first, in order of definition.
  const std::vector<const Value *> &family(const Value *value) const;

private:
  struct Entry {
    const Value *base;
    const Value *parent; // nullptr for a base
  };
  std::unordered_map<const Value *, Entry> entries_;
  std::unordered_map<const Value *, std::vector<const Value *>> families_;
};

} // namespace graphopt::ir
