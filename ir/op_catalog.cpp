// Operator names taken apart and put together, and where a schema's argument stands among the operands.
#include "ir/op_catalog.h"

#include <algorithm>

namespace graphopt::ir {

namespace {
// These print with a dot; every other namespace keeps the dispatcher's "::", so a reader sees at once that
// the operator is somebody else's.
constexpr std::string_view kDotted[] = {"aten", "prim", "plan"};

bool isDotted(std::string_view ns) {
  return std::find(std::begin(kDotted), std::end(kDotted), ns) != std::end(kDotted);
}
} // namespace

OpName splitOpName(std::string_view irName) {
  OpName name;
  size_t colons = irName.find("::");
  size_t nsEnd = colons == std::string_view::npos ? irName.find('.') : colons;
  if (nsEnd == std::string_view::npos) {
    name.base = irName;
    return name;
  }
  name.ns = irName.substr(0, nsEnd);
  std::string_view rest = irName.substr(nsEnd + (colons == std::string_view::npos ? 1 : 2));
  size_t dot = rest.find('.');
  name.base = rest.substr(0, dot);
  if (dot != std::string_view::npos)
    name.overload = rest.substr(dot + 1);
  return name;
}

std::string joinOpName(const OpName &name) {
  std::string text = name.ns;
  if (!text.empty())
    text += isDotted(name.ns) ? "." : "::";
  text += name.base;
  if (!name.overload.empty())
    text += "." + name.overload;
  return text;
}

std::optional<size_t> OpInfo::operandIndex(std::string_view argName) const {
  size_t index = 0;
  for (const ArgInfo &arg : args) {
    if (arg.role == ArgInfo::Role::Attr)
      continue;
    if (arg.name == argName)
      return index;
    ++index;
  }
  return std::nullopt;
}

} // namespace graphopt::ir
