// Writes prims before an operator that is being taken apart: types follow from the shape rules, broadcasts
// and casts that change nothing are left out, and all of it can be taken back.
#pragma once
#include "ir/graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace graphopt::passes {

/// Why an operator cannot be taken apart here (a dtype no prim takes, sizes that cannot be shown to fit). It
/// then stays as it is.
struct CannotDecompose {
  std::string reason;
};

class CoreBuilder {
public:
  using Attrs = std::vector<ir::NamedAttr>;

  /// Ops are made before `origin`, under its scope and ambient state.
  CoreBuilder(ir::Graph &graph, ir::Op &origin) : graph_(graph), origin_(origin) {}

  /// Any prim; throws CannotDecompose with the shape rule's reason when it does not fit.
  ir::Value *prim(std::string_view name, std::vector<ir::Operand> operands, Attrs attrs = {});
  /// A point prim: operands are broadcast to their common size. A fraction beside integers makes these f32,
  /// an integer beside bools makes these i64, as ATen's wrapped numbers do.
  ir::Value *point(std::string_view name, std::vector<ir::Operand> operands);
  /// A dispatcher operator whose result type is known.
  ir::Value *call(std::string_view name, std::vector<ir::Operand> operands, Attrs attrs, ir::Type type);

  ir::Value *cast(ir::Value *x, ir::DType dtype);
  ir::Value *broadcast(ir::Value *x, const std::vector<ir::Dim> &size);
  ir::Value *reshape(ir::Value *x, const std::vector<ir::Dim> &shape);
  ir::Value *copy(ir::Value *x);

  /// Whether this builder made the value, so that its layout may still be chosen.
  bool made(const ir::Value *value) const;
  /// How often a result was rounded: prims other than casts, choices and moves of elements.
  size_t roundings() const { return roundings_; }
  const std::vector<ir::Sym> &syms() const { return graph_.syms; }
  ir::Graph &graph() { return graph_; }
  const ir::Op &origin() const { return origin_; }

  /// Removes all that was made.
  void rollBack();
  /// Removes what nobody uses among what was made; `kept` stay.
  void dropUnused(const std::vector<ir::Value *> &kept);

private:
  ir::Op *insert(std::string_view name, std::vector<ir::Operand> operands, Attrs attrs);
  std::string baseName() const;

  ir::Graph &graph_;
  ir::Op &origin_;
  std::vector<ir::Op *> made_;
  size_t roundings_ = 0;
};

} // namespace graphopt::passes
