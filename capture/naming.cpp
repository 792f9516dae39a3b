// Makes a result's name: its module's last word where the operator ends the module, else the operator's base
// name.
#include "capture/naming.h"

#include <algorithm>

namespace graphopt::capture {
namespace {

bool isNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "encoder.layers.0" -> "layers.0": a number alone says little.
std::string lastComponent(const std::string &path) {
  size_t from = path.size() + 1; // where the last component looked at begins
  do {
    const size_t end = from - 1;
    const size_t dot = end > 0 ? path.rfind('.', end - 1) : path.npos;
    from = dot == path.npos ? 0 : dot + 1;
    if (!isNumber(std::string_view(path).substr(from, end - from)))
      break;
  } while (from > 0);
  return path.substr(from);
}

/// "_add_" -> "add"
std::string plainName(std::string_view base) {
  while (base.size() > 1 && base.front() == '_')
    base.remove_prefix(1);
  while (base.size() > 1 && base.back() == '_')
    base.remove_suffix(1);
  return std::string(base);
}

bool isInside(const std::string &path, const std::string &module) {
  return path == module || (path.starts_with(module) && path[module.size()] == '.');
}

/// The scope of the next call, or nullptr at the end.
const TraceScope *nextScope(const Trace &trace, size_t call) {
  for (size_t i = call + 1; i < trace.calls.size(); ++i)
    if (trace.calls[i].facts && !trace.calls[i].isErased)
      return &trace.scopes[trace.calls[i].scope];
  return nullptr;
}

bool isLastOfModule(const Trace &trace, size_t call) {
  const TraceScope &scope = trace.scopes[trace.calls[call].scope];
  if (scope.isGuessed || scope.path.empty())
    return false;
  const TraceScope *next = nextScope(trace, call);
  return !next || next->isGuessed || !isInside(next->path, scope.path);
}

} // namespace

std::vector<std::string> resultNames(const Trace &trace) {
  std::vector<std::string> names(trace.calls.size());
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    const TraceCall &call = trace.calls[i];
    if (!call.facts || call.results.empty())
      continue;
    names[i] =
        isLastOfModule(trace, i) ? lastComponent(trace.scopes[call.scope].path) : plainName(call.facts->base);
  }
  return names;
}

} // namespace graphopt::capture
