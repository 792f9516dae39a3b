// Pieces as .gir text: the unit, then graphs @forward and @backward, whose headers say what is no graph.
//
//   graph @unit version=1 stage=captured ...        the operator
//   graph @forward ... results=1 requires=[true]    what it is made of
//   graph @backward ... given="f32[8]/none"         its backward, for a cotangent of that type and no
//   gradient so far
//
// A piece that is opaque says opaque="the reason".
#pragma once
#include "ir/pieces.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace graphopt::passes {

/// What is known of one unit.
struct UnitPieces {
  std::optional<ir::ForwardPiece> forward;
  std::map<std::string, ir::BackwardPiece> backwards; ///< by givenText()
};

/// The types that a backward piece holds for: "f32[8],none/f32[8]".
std::string givenText(const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar);

/// The pieces without their unit; empty when one of them holds a constant that text cannot.
std::string print(const UnitPieces &pieces);

/// What print() gave. Throws a user error with line and column for other texts.
UnitPieces parsePieces(const std::string &text);

/// A file of many units: the text of each unit, and of its pieces after it.
std::map<std::string, std::string> splitUnits(std::string_view file);

} // namespace graphopt::passes
