// Diagnostics: file:line:col, severity, message, the guilty line with a caret, notes.
//
//   mlp.gir:17:31: error: 'aten.linear' op operand #1 is bf16[4096, 1000], expected bf16[*, 1024]
//     %h: bf16[B, 4096] = aten.linear(%c, %fc.weight)
//                                         ^~~~~~~~~~
//   mlp.gir:6:3: note: '%fc.weight' is declared here
//
// Messages start in lower case and have no final period. Notes hang on an error, never alone.
#pragma once
#include "ir/graph.h"

#include <string>
#include <vector>

namespace graphopt::ir {

enum class Severity { Error, Warning };

struct Note {
  Loc loc;
  std::string message;
};

struct Diagnostic {
  Severity severity = Severity::Error;
  Loc loc;
  std::string message;
  std::vector<Note> notes;
};

/// Collects diagnostics about one text. Errors are counted, none is thrown.
class Diagnostics {
public:
  /// `file` names the text in messages ("-" for standard input); `source` may be empty (no caret lines then).
  explicit Diagnostics(std::string file = "", std::string source = "");
  /// The reference holds until the next call.
  Diagnostic &error(Loc loc, std::string message);
  Diagnostic &warning(Loc loc, std::string message);
  const std::vector<Diagnostic> &all() const { return all_; }
  bool hasErrors() const;
  const std::string &file() const { return file_; }
  const std::string &source() const { return source_; }
  /// The texts of all diagnostics, as a terminal shows them.
  std::string render() const;
  std::string render(const Diagnostic &diagnostic) const;

private:
  std::string file_;
  std::string source_;
  std::vector<Diagnostic> all_;
};

} // namespace graphopt::ir
