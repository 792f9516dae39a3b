// Sizes or strides as an attribute.
#pragma once
#include "ir/attr.h"

#include <vector>

namespace graphopt::ir {

/// A list of integers, each a constant or an expression over syms.
inline Attr dimList(const std::vector<Dim> &dims) {
  std::vector<Attr> items;
  for (const Dim &dim : dims)
    items.push_back(Attr::integer(dim));
  return Attr::list(std::move(items));
}

} // namespace graphopt::ir
