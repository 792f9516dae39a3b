// What compiled calls on this thread may do, for as long as a guard lives; torch.compiler.set_stance in C++.
#pragma once
#include <graphopt/export.h>

namespace graphopt {

enum class Stance {
  normal,           ///< record what is new
  forceEager,       ///< run programs as they are
  failOnRecompile,  ///< a call that would have to be recorded is a user error that says why
  eagerOnRecompile, ///< such a call runs eagerly; what was recorded before serves
};

/// Sets the thread's stance, and gives back the one before. Guards nest.
class GRAPHOPT_API StanceGuard {
public:
  explicit StanceGuard(Stance stance);
  ~StanceGuard();
  StanceGuard(const StanceGuard &) = delete;
  StanceGuard &operator=(const StanceGuard &) = delete;

private:
  Stance before_;
};
GRAPHOPT_API Stance currentStance();

} // namespace graphopt
