// --verify-diagnostics: remarks in a text that say which diagnostics it must give.
//
//   // expected-error @+1 {{op operand #1}}      an error on the next line whose message contains the words
//   %y: f32[2] = aten.relu(%z)  // expected-error {{undefined}}
//   // expected-warning @-2 {{...}}  expected-note @7 {{...}}  expected-error @unknown {{...}}
//
// @+N and @-N count lines from the remark, @N is a line of the file, @unknown an error without a place.
// Errors and warnings without a remark, and remarks without a diagnostic, are complaints; notes may come
// without a remark.
#pragma once
#include "ir/diag.h"

#include <string>

namespace graphopt::tools {

/// The complaints about the collected diagnostics of diagnostics.source(), one a line; empty when all is as
/// expected.
std::string checkExpected(const ir::Diagnostics &diagnostics);

} // namespace graphopt::tools
