// Names the part of a program that runs now, for graphs, errors and explanations.
//
//   Tensor forward(Tensor x) {
//     GRAPHOPT_SCOPE("attention");
//     ...
#pragma once
#include <graphopt/export.h>
#include <string>
#include <string_view>

namespace graphopt {

/// Operators called on this thread while it lives belong to the scope `name`, inside the scopes that are open
/// already. Costs nothing worth counting when nothing is recorded.
class GRAPHOPT_API Scope {
public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

  /// The open scopes of the thread, joined by dots; empty when none is open.
  static const std::string &current();

private:
  size_t before_; // length of the path outside of this scope
};

} // namespace graphopt

#define GRAPHOPT_SCOPE_JOIN2(a, b) a##b
#define GRAPHOPT_SCOPE_JOIN(a, b) GRAPHOPT_SCOPE_JOIN2(a, b)
/// A Scope until the end of the enclosing block.
#define GRAPHOPT_SCOPE(name) ::graphopt::Scope GRAPHOPT_SCOPE_JOIN(graphoptScope, __LINE__)(name)
