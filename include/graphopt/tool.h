// The command line as a function: bin/graphopt is a thin main over it, so that the tool and the plugins it
// loads share one copy of the library.
#pragma once
#include <graphopt/export.h>
#include <graphopt/plugin.h>

#include <span>

namespace graphopt {

/// Runs `graphopt COMMAND ...`: IR on standard output, all else on standard error. Returns the exit status:
/// 0, or 1 on any error. Throws nothing. `zoo`: programs of the caller's, which MODEL names as zoo:NAME.
GRAPHOPT_API int toolMain(int argc, char **argv, std::span<const plugin::Descriptor> zoo = {});

} // namespace graphopt
