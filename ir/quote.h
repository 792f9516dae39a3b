// How names and strings are written so that they read back unchanged: plain where the grammar allows it, else
// between quotes with escapes. One place, because the printer, the literals and the messages must agree.
#pragma once
#include <string>
#include <string_view>

namespace graphopt::ir {

/// "text" with \" \\ \n \r \t and \xHH: control bytes, bytes that are not UTF-8, and the second of `[[` or
/// `{{` (which tests of texts cannot match literally).
std::string quoted(std::string_view text);

/// A value as operands show it: %fc.weight, or %"odd name".
std::string valueText(std::string_view name);
/// A graph's name with its sigil: @net, or @"odd name".
std::string graphText(std::string_view name);
/// A word where the grammar asks for a name (attribute keys, group kinds): plain, or quoted.
std::string keyText(std::string_view name);
/// An operator's name: plain when it has a namespace (aten.add.Tensor, mylib::foo), else quoted.
std::string opNameText(std::string_view name);

/// [A-Za-z_][A-Za-z0-9_]*
bool isPlainKey(std::string_view text);
/// A capital letter, then letters, digits and '_'.
bool isSymName(std::string_view text);
/// A lower-case word that reads back as one: not true, none, inf ..., and of the lexer's characters.
bool isPlainWord(std::string_view text);

/// Length of the UTF-8 character that `text` starts with; 0 when it starts with none.
size_t utf8Length(std::string_view text);

} // namespace graphopt::ir
