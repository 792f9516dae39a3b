// What an operator under autocast does with a weight: whether it takes the cast that autocast keeps of it.
//
// Found by looking, not by a table. LibTorch's lists of operators that cast are per device and in no header
// for the CPU, and an operator outside of them may call one inside (an LSTM cell calls linear). The
// operator's piece (ir/pieces.h) shows every cast, whoever asked for it; and the operator is proved to see
// nothing but the cast when the piece of the operator *on* the cast is the same but for that.
#pragma once
#include "passes/unit.h"

#include "ir/dtype.h"
#include "ir/pieces.h"

#include <optional>
#include <string>
#include <vector>

namespace graphopt::passes {

struct CastUse {
  enum class Kind {
    None,   ///< it takes the weight as it is
    Cast,   ///< it takes the cast alone: the cast may stand in the weight's place
    Unclear ///< `why`
  };
  Kind kind = Kind::None;
  ir::Type type;    ///< of the cast
  size_t times = 0; ///< operators inside that take the cast: so often a gradient reaches it
  std::string why;
};

/// The low dtype that the operator runs under; nothing without autocast, or when autocast keeps no casts.
std::optional<ir::DType> keptDType(const ir::Graph &graph, const ir::Op &op);

/// The operands that autocast could keep casts of, each once: declared, in f32, requiring gradients.
std::vector<ir::Value *> possibleWeights(const ir::Op &op);

/// `weight` is an operand of `op`, in f32; the operator runs under a dtype of keptDType().
CastUse castUseOf(const ir::Graph &graph, const ir::Op &op, const ir::Value *weight,
                  const NeedsGrad &needsGrad, ir::PieceSource &pieces);

/// Which results need gradients, as far as types and grad mode say.
NeedsGrad likelyNeedsGrad(const ir::Graph &graph);

} // namespace graphopt::passes
