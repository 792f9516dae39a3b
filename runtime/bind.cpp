// Declared types are checked before anything runs: a wrong input would else show up as an operator's error.
#include "runtime/bind.h"

#include "graphopt/error.h"
#include "runtime/call.h"
#include "runtime/content.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace graphopt::runtime {
namespace {
using ir::Type;
using ir::Value;

bool isKnown(const SymValues &syms, const std::string &name) {
  for (const ir::SymValue &sym : syms)
    if (sym.name == name)
      return true;
  return false;
}

/// Solves a*S + b == size for a sym S that has no value yet.
void solve(const ir::Dim &dim, int64_t size, SymValues &syms) {
  if (dim.terms().size() != 1)
    return;
  const ir::DimTerm &term = dim.terms().front();
  if (term.atoms.size() != 1 || term.atoms.front().kind != ir::DimAtom::Kind::Sym)
    return;
  const std::string &name = term.atoms.front().sym;
  int64_t rest = size - dim.constantPart();
  if (!isKnown(syms, name) && rest % term.coefficient == 0)
    syms.push_back({name, rest / term.coefficient});
}

void checkType(const Value &value, const at::Tensor &tensor, const SymValues &syms) {
  const Type &type = value.type;
  if (!type.isTensor())
    return;
  bool same = tensor.scalar_type() == type.dtype && tensor.dim() == static_cast<int64_t>(type.rank());
  for (size_t d = 0; same && d < type.rank(); ++d) {
    auto size = evaluate(type.sizes[d], syms);
    same = !size || *size == tensor.size(static_cast<int64_t>(d));
  }
  if (!same)
    userError(fmt::format("{} '%{}' is declared {}, the tensor given is {}[{}]", toString(value.kind),
                          value.name, toString(type), ir::dtypeName(tensor.scalar_type()),
                          fmt::join(tensor.sizes(), ", ")));
}

at::Tensor tensorFor(const Value &value, const Environment &environment, const ConstantLoader &loader,
                     const SymValues &syms) {
  if (auto it = environment.find(value.name); it != environment.end())
    return it->second;
  if (!value.content.isNone())
    return tensorFromContent(value.type, value.content, syms);
  if (!value.contentHash.empty() && loader)
    return loader(value);
  return {};
}

/// The whole storage of a strided tensor as one flat f64 (c128, or copied) tensor.
at::Tensor promotedStorage(const at::Tensor &tensor) {
  int64_t count = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  at::Tensor flat = at::empty({0}, tensor.options()).set_(tensor.storage(), 0, {count}, {1});
  return flat.to(promotedDType(tensor.scalar_type()), /*non_blocking=*/false, /*copy=*/true);
}

class Promoter {
public:
  at::Tensor operator()(const at::Tensor &given) {
    if (!given.defined() || isWideLeaf(given))
      return given;
    at::Tensor tensor = given.detach();
    if (tensor.layout() != c10::kStrided || !tensor.has_storage())
      return tensor.to(promotedDType(tensor.scalar_type()), false, true);
    auto [it, fresh] = storages_.try_emplace({tensor.storage().unsafeGetStorageImpl(), tensor.scalar_type()});
    if (fresh)
      it->second = promotedStorage(tensor);
    at::Tensor view = it->second.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    view = tensor.is_conj() ? view.conj() : view;
    view = tensor.is_neg() ? view._neg_view() : view;
    if (given.unsafeGetTensorImpl()->is_wrapped_number())
      view.unsafeGetTensorImpl()->set_wrapped_number(true);
    return view;
  }

private:
  /// Gradients are asked of it; nothing can write it.
  static bool isWideLeaf(const at::Tensor &tensor) {
    return tensor.requires_grad() && tensor.is_leaf() &&
           promotedDType(tensor.scalar_type()) == tensor.scalar_type();
  }
  std::map<std::pair<const void *, at::ScalarType>, at::Tensor> storages_;
};

} // namespace

void bindSyms(const Type &type, const at::Tensor &tensor, SymValues &syms) {
  if (!type.isTensor() || tensor.dim() != static_cast<int64_t>(type.rank()))
    return;
  for (size_t d = 0; d < type.rank(); ++d)
    solve(type.sizes[d], tensor.size(static_cast<int64_t>(d)), syms);
}

Bindings bindDeclarations(const ir::Graph &graph, const Environment &environment,
                          const ConstantLoader &loader, SymValues &syms) {
  for (const Value *value : graph.declarations())
    if (auto it = environment.find(value->name); it != environment.end() && it->second.defined())
      bindSyms(value->type, it->second, syms);
  Bindings bindings;
  for (const Value *value : graph.declarations()) {
    at::Tensor tensor = tensorFor(*value, environment, loader, syms);
    if (tensor.defined())
      checkType(*value, tensor, syms);
    else if (value->hasUses())
      userError(fmt::format("{} '%{}' ({}) has no tensor: supply one", toString(value->kind), value->name,
                            toString(value->type)));
    bindings[value] = std::move(tensor);
  }
  return bindings;
}

Bindings promoted(const Bindings &bindings) {
  Promoter promoter;
  Bindings result;
  for (const auto &[value, tensor] : bindings)
    result[value] = promoter(tensor);
  return result;
}

} // namespace graphopt::runtime
