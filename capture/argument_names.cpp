// Walks nested arguments and names each tensor by its path; what has no name of its own is counted.
#include "capture/argument_names.h"

namespace graphopt::capture {
namespace {

std::string childName(const std::string &parent, const Structure &structure, size_t i) {
  if (structure.kind != Structure::Kind::Dict)
    return fmt::format("{}.{}", parent, i);
  const c10::IValue &key = structure.keys[i];
  return key.isString() ? parent + "." + key.toStringRef() : fmt::format("{}.{}", parent, i);
}

/// Calls f(name, node) for tensors and constants, in order.
template <class F> void walk(const Structure &structure, const std::string &name, const F &f) {
  if (structure.kind == Structure::Kind::Tensor || structure.kind == Structure::Kind::Constant) {
    f(name, structure);
    return;
  }
  for (size_t i = 0; i < structure.children.size(); ++i)
    walk(structure.children[i], childName(name, structure, i), f);
}

} // namespace

std::vector<std::string> argumentNames(size_t count, std::vector<std::string> own) {
  own.resize(count);
  for (size_t i = 0; i < count; ++i)
    if (own[i].empty())
      own[i] = count == 1 ? "x" : fmt::format("x{}", i);
  return own;
}

std::vector<std::string> leafNames(const std::vector<Structure> &arguments,
                                   const std::vector<std::string> &names) {
  std::vector<std::string> leaves;
  for (size_t i = 0; i < arguments.size(); ++i)
    walk(arguments[i], names[i], [&](const std::string &name, const Structure &node) {
      if (node.kind == Structure::Kind::Tensor)
        leaves.push_back(name);
    });
  return leaves;
}

std::vector<NamedConstant> constantsOf(const std::vector<Structure> &arguments,
                                       const std::vector<std::string> &names) {
  std::vector<NamedConstant> constants;
  for (size_t i = 0; i < arguments.size(); ++i)
    walk(arguments[i], names[i], [&](const std::string &name, const Structure &node) {
      if (node.kind == Structure::Kind::Constant)
        constants.push_back({name, &node.constant});
    });
  return constants;
}

} // namespace graphopt::capture
