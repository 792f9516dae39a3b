// Options of compile(), under torch.compile's names where the meaning is the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace graphopt {

/// How a compiled callable runs after its first call.
enum class Replay {
  shadow,  ///< the host code runs again and each operator is checked against the captured graph
  audit,   ///< trusted, with every Nth call (auditEvery) run in shadow and compared
  trusted, ///< the host code is skipped; guards on arguments, parameters and thread state decide
};

/// What becomes of sizes and integers that change from call to call (Replay::shadow).
enum class Dynamic {
  automatic, ///< static until a second value was recorded; from then on new values need no recording
  always,    ///< dynamic from the first call, but for sizes 0 and 1 and those of parameters and buffers
  never,     ///< each value is recorded, but those of dims that markDynamic() names
};

/// The order in memory of images (and volumes) between convolutions (Replay::shadow, with gradients on).
enum class Layout {
  asIs,         ///< as the program has it
  channelsLast, ///< channels last where that pays: results lie as the program has them, and are those of
                ///< LibTorch's kernels for that order, which round otherwise
};

struct CompileOptions {
  /// `trusted` must be asked for by name: what the host code decides from state of its own (a member, a
  /// global, a file) is not seen again once a call was recorded.
  Replay replay = Replay::shadow;
  Dynamic dynamic = Dynamic::automatic;
  /// A host read of data in the middle of the program is an error that names the operator and the module.
  bool fullgraph = false;
  /// True: run the program as it is.
  bool disable = false;
  /// A failure inside graphopt is an error instead of a counted, logged eager run.
  bool strict = false;
  /// So many variants (families of arguments) are compiled; calls that fit none of them then run eagerly and
  /// are counted.
  size_t recompileLimit = 8;
  /// Replay::shadow: the first time that a segment is run for a shadowed call, it is run a second time on
  /// copies of what it reads, and both have to agree. It finds operators that write or remember what they do
  /// not declare.
  bool verifyRun = true;
  /// Segments that read more bytes than this are not verified, which is counted and said: the copies live as
  /// long as the verify run.
  size_t verifyLimit = size_t{1} << 30;
  /// Replay::audit: so many calls from one audited call to the next.
  uint64_t auditEvery = 100;
  /// Replay::shadow, with gradients on: segments run as one plan below autograd, and their backward is one
  /// node that runs another. False: operators run through autograd's own nodes.
  bool compileBackward = true;
  /// Of what a compiled backward reads, everything that is cheap to make again (views, pointwise operators,
  /// normalisations, masks of dropout from the generator's state of then) is made again instead of kept: less
  /// memory from forward to backward, more time in the backward, the same bits (as long as no other thread
  /// draws from the same generator meanwhile: docs/soundness.md).
  bool recompute = false;
  Layout layout = Layout::asIs;
  /// The graph's name in dumps and messages; empty: the class of the module.
  std::string name = {};
};

} // namespace graphopt
