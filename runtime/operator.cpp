// One table for the process, filled on first use: a schema is translated once, however many graphs use it.
#include "runtime/operator.h"

#include "graphopt/error.h"
#include "runtime/to_ivalue.h"

#include <ATen/core/enum_tag.h>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace graphopt::runtime {
namespace {
using c10::TypeKind;
using Role = ir::ArgInfo::Role;

const c10::Type &withoutOptional(const c10::Type &type) {
  if (type.kind() == TypeKind::OptionalType)
    return *type.castRaw<c10::OptionalType>()->getElementType();
  return type;
}

Role roleOf(const c10::Type &type) {
  const c10::Type &inner = withoutOptional(type);
  if (inner.kind() == TypeKind::TensorType)
    return Role::Tensor;
  if (inner.kind() != TypeKind::ListType)
    return Role::Attr;
  const c10::Type &element = withoutOptional(*inner.castRaw<c10::ListType>()->getElementType());
  return element.kind() == TypeKind::TensorType ? Role::TensorList : Role::Attr;
}

/// The set before the arrow of Tensor(a -> *), or of the elements of Tensor(a)[]; the first by name of
/// several (a|b).
std::string aliasSetOf(const c10::AliasInfo *alias) {
  if (!alias)
    return "";
  std::string first;
  for (const c10::Symbol &set : alias->beforeSets())
    if (std::string name = set.toUnqualString(); first.empty() || name < first)
      first = name;
  if (first.empty() && !alias->containedTypes().empty())
    return aliasSetOf(&alias->containedTypes().front());
  return first;
}

bool isWrite(const c10::AliasInfo *alias) {
  if (!alias)
    return false;
  if (alias->isWrite())
    return true;
  for (const c10::AliasInfo &contained : alias->containedTypes())
    if (isWrite(&contained))
      return true;
  return false;
}

ir::ArgInfo describe(const c10::Argument &argument) {
  ir::ArgInfo info;
  info.name = argument.name();
  info.type = schemaTypeText(argument);
  info.role = roleOf(*argument.real_type());
  info.optional = argument.real_type()->kind() == TypeKind::OptionalType;
  info.written = isWrite(argument.alias_info());
  info.out = argument.is_out();
  info.kwargOnly = argument.kwarg_only();
  info.aliasSet = aliasSetOf(argument.alias_info());
  if (argument.default_value())
    info.dflt = toAttr(*argument.default_value(), *argument.real_type());
  return info;
}

ir::ReturnInfo describeReturn(const c10::Argument &argument) {
  ir::ReturnInfo info;
  info.type = argument.real_type()->str();
  info.aliasSet = aliasSetOf(argument.alias_info());
  Role role = roleOf(*argument.real_type());
  info.isTensor = role == Role::Tensor;
  info.isTensorList = role == Role::TensorList;
  return info;
}

ir::OpInfo describe(std::string_view irName, const c10::OperatorHandle &handle) {
  ir::OpInfo info;
  info.name = irName;
  for (const c10::Argument &argument : handle.schema().arguments())
    info.args.push_back(describe(argument));
  for (const c10::Argument &result : handle.schema().returns())
    info.returns.push_back(describeReturn(result));
  info.random = handle.hasTag(at::Tag::nondeterministic_seeded);
  info.dataDependent =
      handle.hasTag(at::Tag::data_dependent_output) || handle.hasTag(at::Tag::dynamic_output_shape);
  info.metadataOnly = handle.hasTag(at::Tag::inplace_view);
  info.pointwise = handle.hasTag(at::Tag::pointwise);
  // A backend with a kernel of its own does not take the composite way.
  info.composite = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
                   !handle.hasKernelForAnyDispatchKey(
                       c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::CUDA}));
  return info;
}

class OperatorTable {
public:
  const Operator *find(std::string_view irName) {
    {
      std::shared_lock lock(mutex_);
      if (auto it = entries_.find(irName); it != entries_.end())
        return it->second.get();
    }
    ir::OpName name = ir::splitOpName(irName);
    if (name.ns.empty() || name.base.empty())
      return nullptr;
    auto handle = c10::Dispatcher::singleton().findSchema({name.ns + "::" + name.base, name.overload});
    if (!handle)
      return nullptr;
    auto made = std::make_unique<Operator>(Operator{*handle, describe(irName, *handle)});
    std::unique_lock lock(mutex_);
    return entries_.try_emplace(std::string(irName), std::move(made)).first->second.get();
  }

private:
  std::shared_mutex mutex_;
  std::map<std::string, std::unique_ptr<Operator>, std::less<>> entries_;
};

} // namespace

const Operator *findOperator(std::string_view irName) {
  static OperatorTable table;
  return table.find(irName);
}

const Operator &requireOperator(std::string_view irName) {
  const Operator *op = findOperator(irName);
  if (!op)
    userError(fmt::format(
        "unknown operator '{}': LibTorch's dispatcher has none of that name; load the library that "
        "registers it, or correct the name",
        irName));
  return *op;
}

} // namespace graphopt::runtime
