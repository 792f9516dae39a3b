// One value a thread.
#include <graphopt/stance.h>

namespace graphopt {
namespace {
thread_local Stance stance = Stance::normal;
} // namespace

StanceGuard::StanceGuard(Stance wanted) : before_(stance) { stance = wanted; }
StanceGuard::~StanceGuard() { stance = before_; }
Stance currentStance() { return stance; }

} // namespace graphopt
