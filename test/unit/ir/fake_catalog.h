// A catalog of the operators that a test writes down, for tests without a dispatcher.
#pragma once
#include "ir/op_catalog.h"

#include <map>

namespace graphopt::ir {

struct FakeCatalog : OpCatalog {
  std::map<std::string, OpInfo, std::less<>> ops;

  /// An operator with these arguments and one tensor result.
  OpInfo &add(const std::string &name, std::vector<ArgInfo> args) {
    OpInfo &info = ops[name];
    info.name = name;
    info.args = std::move(args);
    info.returns.resize(1);
    info.returns[0].isTensor = true;
    return info;
  }
  const OpInfo *find(std::string_view name) const override {
    auto it = ops.find(name);
    return it == ops.end() ? nullptr : &it->second;
  }
  std::optional<std::vector<Attr>> evaluate(const Op &, const std::vector<Attr> &) const override {
    return std::nullopt;
  }
};

inline ArgInfo tensorArg(std::string name, bool optional = false) {
  ArgInfo arg;
  arg.name = std::move(name);
  arg.type = optional ? "Tensor?" : "Tensor";
  arg.role = ArgInfo::Role::Tensor;
  arg.optional = optional;
  return arg;
}

inline ArgInfo listArg(std::string name) {
  ArgInfo arg = tensorArg(std::move(name));
  arg.type = "Tensor[]";
  arg.role = ArgInfo::Role::TensorList;
  return arg;
}

/// (a!)
inline ArgInfo writtenArg(std::string name) {
  ArgInfo arg = tensorArg(std::move(name));
  arg.written = true;
  arg.aliasSet = "a";
  return arg;
}

inline ArgInfo attrArg(std::string name, std::string type, std::optional<Attr> dflt = std::nullopt) {
  ArgInfo arg;
  arg.name = std::move(name);
  arg.type = std::move(type);
  arg.dflt = std::move(dflt);
  return arg;
}

} // namespace graphopt::ir
