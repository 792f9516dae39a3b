// The backward of a graph made of pieces: the chain rule, operator by operator, in autograd's order.
#pragma once
#include "passes/pass.h"
#include "passes/splicer.h"
#include "passes/unit.h"

namespace graphopt::passes {

/// One operator of the captured graph after its forward piece was put in.
struct Spliced {
  Unit unit;
  std::vector<ir::Value *> results;  ///< in the lowered graph, one a result of the unit; null: undefined
  std::vector<bool> requiresGrad;    ///< one a result
  std::vector<ir::Value *> numbered; ///< the values of the forward run (ir/pieces.h); null: not there
  uint32_t state = 0;
  std::string name;      ///< of the operator, for messages
  size_t position = 0;   ///< of the operator in the captured graph
  bool isOpaque = false; ///< it was not taken apart: `numbered` has its operands alone
};

/// What is known of a graph whose forward is lowered.
struct LoweredForward {
  std::vector<Spliced> operators;
  NeedsGrad needsGrad;
  struct Write {
    size_t position = 0;
    std::string name; ///< of the operator
  };
  /// Values that the program as captured writes in place: the last write of each.
  std::unordered_map<const ir::Value *, Write> overwritten;
  /// Of the outputs' cotangents: `as_result`, `undefined`, or their strides; as_result where there is none.
  std::vector<ir::Attr> cotangents;
  /// How gradients come that autograd itself gives: lists of the operator's position in the captured graph,
  /// the number of the gradient among those of its vjp, and `undefined`, its dims from the outermost in
  /// (those it is expanded along left out), or a list of its strides in a list. All others are contiguous.
  std::vector<ir::Attr> vjpGradients;
};

/// Appends the backward: a cotangent for each returned value that requires gradients; after the outputs, the
/// return gives the gradient of every declared value that requires one, in order of declaration (none where
/// there is none). The header says of each output whether it requires gradients: outputs=[true, false,
/// undefined], the last for one that has no cotangent though it does. An operator whose backward cannot be
/// taken apart gets a vjp, whose attribute `operator` is the operator's position in the captured graph, and
/// `undefined` numbers the gradients that are expected to stay away. Throws a user error where autograd
/// would, at backward, since the program has written in place what an operator's backward reads.
void appendBackward(ir::Graph &graph, const LoweredForward &forward, PassContext &context,
                    ir::PieceSource &pieces, Splicer &splicer);

} // namespace graphopt::passes
