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
  /// One value a segment. `range`: of a sym, should one have to be made. `likely`: expressions to try first.
  ir::Dim of(const std::vector<int64_t> &values, ir::DimRange range, const std::vector<ir::Dim> &likely = {});
  /// Those made so far: S0, S1 ...
  const std::vector<ir::Sym> &syms() const { return syms_; }

private:
  bool has(const ir::Dim &dim, const std::vector<int64_t> &values) const;
  ir::Dim keep(const ir::Dim &dim, const std::vector<int64_t> &values);
  struct Base {
    ir::Dim dim;
    std::vector<int64_t> values;
  };
  std::vector<ir::Sym> syms_;
  std::vector<std::vector<int64_t>> values_; // by sym
  std::vector<Base> bases_;                  // what others are made of: syms, and lines through them
};

} // namespace graphopt::capture
