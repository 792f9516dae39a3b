// Numbers that differ between segments of one family, as expressions over syms.
#pragma once
#include "ir/dim.h"

#include <vector>

namespace graphopt::capture {

/// Finds, for a number's values in each segment, an expression that has these values. What is found holds for
/// all the segments at hand; numbers that no simple expression fits get a sym of their own, which claims
/// nothing.
class SymTable {
public:
  /// One value a segment. `range`: of a sym, should one have to be made.
  ir::Dim of(const std::vector<int64_t> &values, ir::DimRange range);
  /// Those made so far: S0, S1 ...
  const std::vector<ir::Sym> &syms() const { return syms_; }

private:
  std::vector<ir::Sym> syms_;
  std::vector<std::vector<int64_t>> values_; // by sym
};

} // namespace graphopt::capture
