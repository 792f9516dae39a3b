// Writes a backward piece (ir/pieces.h) operator by operator: what hand-written pieces are made with.
#pragma once
#include "ir/pieces.h"

#include <string>
#include <vector>

namespace graphopt::passes {

/// Values are of ATen operators as they run below autograd. Types of pointwise results are those of
/// contiguous tensors: hand-written pieces are for such layouts.
class HandBuilder {
public:
  explicit HandBuilder(const ir::Graph &unit);

  // ---- inputs: the operand of that number, the result, its cotangent
  ir::Value *operand(size_t number, const ir::Type &type);
  ir::Value *result(size_t number, const ir::Type &type) { return operand(number, type); }
  ir::Value *cotangent(const ir::Type &type) { return input("g0", type); }

  // ---- operators
  ir::Value *call(const char *name, const std::vector<ir::Value *> &operands, ir::Type type,
                  std::vector<ir::NamedAttr> attrs = {});
  /// Several results.
  std::vector<ir::Value *> calls(const char *name, const std::vector<ir::Value *> &operands,
                                 std::vector<ir::Type> types, std::vector<ir::NamedAttr> attrs = {});
  ir::Value *view(const char *name, ir::Value *of, ir::Type type, std::vector<ir::NamedAttr> attrs);
  ir::Value *concat(const std::vector<ir::Value *> &pieces, int64_t dim, ir::Type type);
  ir::Value *filled(const char *name, const ir::Type &type); ///< zeros or ones
  ir::Value *cast(ir::Value *value, ir::DType dtype);        ///< itself when it is of that dtype
  ir::Value *contiguous(ir::Value *value);                   ///< itself when it is

  /// Ends the piece of a unit with one operand: the gradient, added to the gradient so far.
  ir::Graph finish(ir::Value *gradient, const ir::GradientTypes &soFar);

private:
  ir::Value *input(const std::string &name, ir::Type type);
  ir::Device deviceOf(const ir::Type &type) const { return type.device.value_or(graph_.device); }
  ir::Graph graph_;
};

/// A contiguous tensor where `like` is.
ir::Type typeLike(const ir::Type &like, ir::DType dtype, std::vector<ir::Dim> sizes);

} // namespace graphopt::passes
