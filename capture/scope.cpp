// Scopes are for people: a wrong guess names a line badly and changes nothing else.
#include "capture/scope.h"

#include <graphopt/scope.h>

namespace graphopt {
namespace {
thread_local std::string openScopes;
} // namespace

Scope::Scope(std::string_view name) : before_(openScopes.size()) {
  if (!openScopes.empty())
    openScopes += '.';
  openScopes += name;
}
Scope::~Scope() { openScopes.resize(before_); }
const std::string &Scope::current() { return openScopes; }

} // namespace graphopt

namespace graphopt::capture {
namespace {

std::string_view moduleOf(std::string_view parameter) {
  size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? std::string_view() : parameter.substr(0, dot);
}

/// "a.b.c" and "a.b.d" have "a.b" in common.
std::string_view commonModule(std::string_view a, std::string_view b) {
  size_t end = 0;
  for (size_t i = 0;; ++i) {
    bool endOfA = i == a.size(), endOfB = i == b.size();
    if ((endOfA || a[i] == '.') && (endOfB || b[i] == '.'))
      end = i;
    if (endOfA || endOfB || a[i] != b[i])
      return a.substr(0, end);
  }
}

} // namespace

int32_t ScopeTracker::intern(std::string_view path, bool isGuessed) {
  const TraceScope &before = trace_.scopes[last_];
  if (before.isGuessed == isGuessed && before.path == path)
    return last_;
  auto &known = isGuessed ? knownGuessed_ : known_;
  auto [it, isNew] = known.try_emplace(std::string(path), static_cast<int32_t>(trace_.scopes.size()));
  if (isNew)
    trace_.scopes.push_back({it->first, isGuessed});
  return it->second;
}

void ScopeTracker::collectModules(const std::vector<TraceOperand> &operands) {
  for (const TraceOperand &operand : operands) {
    collectModules(operand.items);
    if (operand.value == kNone)
      continue;
    const TraceFamily &family = trace_.families[trace_.values[operand.value].family];
    const TraceValue &base = trace_.values[family.base()];
    if (base.kind == ir::Value::Kind::Param || base.kind == ir::Value::Kind::Buffer)
      modules_.push_back(moduleOf(base.name));
  }
}

int32_t ScopeTracker::guessFrom(const std::vector<TraceOperand> &operands) {
  modules_.clear();
  collectModules(operands);
  if (modules_.empty()) {
    const TraceScope &before = trace_.scopes[last_];
    return before.isGuessed || before.path.empty() ? last_ : intern(std::string(before.path), true);
  }
  std::string_view common = modules_.front();
  for (std::string_view module : modules_)
    common = commonModule(common, module);
  return intern(common, false);
}

int32_t ScopeTracker::scopeOf(const std::vector<TraceOperand> &operands) {
  if (!Scope::current().empty())
    return last_ = intern(Scope::current(), false);
  if (std::optional<std::string> path = program_.scope())
    return last_ = path->empty() ? 0 : intern(*path, false);
  return guess_ ? last_ = guessFrom(operands) : 0;
}

} // namespace graphopt::capture
