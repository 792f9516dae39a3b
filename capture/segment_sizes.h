// What the syms of a symbolic segment are in another segment of its family.
#pragma once
#include "capture/segment.h"
#include "capture/sym_table.h"
#include "ir/type.h"

#include <optional>
#include <vector>

namespace graphopt::capture {

class SegmentSizes {
public:
  /// `types`: of the values, by number, as the members' graph has them; nothing where it has none. Integers
  /// are expressions over the table's syms, which were made for the members.
  SegmentSizes(const std::vector<const Segment *> &members, const std::vector<std::optional<ir::Type>> &types,
               SymTable table);

  /// The syms' values in a segment of the members' structure. Nothing when one of its sizes, strides or
  /// integers is another than its expression says, a tensor that is contiguous in all members is not, or a
  /// sym is outside its range: then what holds for the members does not hold for it.
  std::optional<std::vector<ir::SymValue>> of(const Segment &segment) const;

private:
  struct Place {
    enum class Kind : uint8_t { Size, Stride, Integer } kind = Kind::Size;
    uint32_t owner = 0; ///< a value, or a row
    uint32_t index = 0; ///< a dim, or a word of the row
    uint32_t dim = 0;   ///< among dims_
  };
  static int64_t numberAt(const Place &place, const Segment &segment);
  void add(Place place, const ir::Dim &dim);

  std::vector<ValueId> contiguous_; ///< in all members
  std::vector<Place> places_;
  std::vector<ir::Dim> dims_; ///< distinct
  std::vector<ir::Sym> syms_;
  std::vector<std::optional<Place>> defining_; ///< one a sym: a number that is it
};

} // namespace graphopt::capture
