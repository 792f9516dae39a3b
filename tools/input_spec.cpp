// The texts of --input. A type is read by hand rather than by the IR's parser: users leave out spaces and
// write ranges.
#include "tools/input_spec.h"

#include "tools/tensor_file.h"

#include <graphopt/error.h>

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace graphopt::tools {
namespace {

[[noreturn]] void badSpec(const std::string &spec, const std::string &why) {
  userError(fmt::format("--input '{}': {}", spec, why));
}

template <class T> std::optional<T> parseNumber(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  while (text.starts_with(' '))
    text.remove_prefix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  return text;
}

std::optional<c10::IValue> parseScalar(std::string_view text) {
  if (text == "none")
    return c10::IValue();
  if (text == "true" || text == "false")
    return c10::IValue(text == "true");
  if (const auto integer = parseNumber<int64_t>(text))
    return c10::IValue(*integer);
  if (const auto real = parseNumber<double>(text))
    return c10::IValue(*real);
  if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"'))
    return c10::IValue(std::string(text.substr(1, text.size() - 2)));
  return std::nullopt;
}

int64_t parseSize(const std::string &spec, std::string_view text, const runtime::SymValues &syms) {
  if (const auto size = parseNumber<int64_t>(text)) {
    if (*size < 0)
      badSpec(spec, fmt::format("size {} is negative", *size));
    return *size;
  }
  for (const ir::SymValue &sym : syms)
    if (sym.name == text)
      return sym.value;
  badSpec(spec, fmt::format("'{}' is no size: write a number, or give --sym {}=N", text, text));
}

std::vector<ir::Dim> parseSizes(const std::string &spec, std::string_view text,
                                const runtime::SymValues &syms) {
  std::vector<ir::Dim> sizes;
  if (trim(text).empty())
    return sizes;
  while (true) {
    const size_t comma = text.find(',');
    sizes.emplace_back(parseSize(spec, trim(text.substr(0, comma)), syms));
    if (comma == std::string_view::npos)
      return sizes;
    text.remove_prefix(comma + 1);
  }
}

/// One end of a range.
int64_t parseBound(const std::string &spec, std::string_view text) {
  if (const std::optional<int64_t> bound = parseNumber<int64_t>(trim(text)))
    return *bound;
  badSpec(spec, fmt::format("'{}' is no integer: write LOW..HIGH, HIGH excluded", text));
}

/// "0..100" into the spec's range.
void parseRange(const std::string &spec, std::string_view text, runtime::InputSpec &input) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos)
    badSpec(spec, fmt::format("'{}' is no range: write LOW..HIGH, HIGH excluded", text));
  input.low = parseBound(spec, text.substr(0, dots));
  input.high = parseBound(spec, text.substr(dots + 2));
  if (input.low >= input.high)
    badSpec(spec, fmt::format("the range {} is empty", text));
}

c10::IValue randomTensor(const std::string &spec, size_t position, const InputContext &context) {
  const size_t open = spec.find('['), close = spec.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open)
    badSpec(spec, "expected a type like f32[8,3,224,224], a scalar, or @FILE");
  const auto dtype = ir::parseDType(trim(std::string_view(spec).substr(0, open)));
  if (!dtype)
    badSpec(spec, fmt::format("'{}' is no dtype (f32, bf16, i64, bool ...)", spec.substr(0, open)));
  const std::string_view rest = trim(std::string_view(spec).substr(close + 1));
  runtime::InputSpec input{.seed = context.seed + position};
  if (rest.starts_with(':')) {
    if (!ir::isInteger(*dtype))
      badSpec(spec, "only integers take a range");
    parseRange(spec, rest.substr(1), input);
  } else if (!rest.empty()) {
    badSpec(spec, fmt::format("'{}' after the type", rest));
  }
  const std::string_view sizes = std::string_view(spec).substr(open + 1, close - open - 1);
  const ir::Type type = ir::Type::tensor(*dtype, parseSizes(spec, sizes, context.syms));
  return runtime::makeInput(type, input).to(context.device);
}

} // namespace

std::vector<c10::IValue> makeArguments(const std::string &spec, size_t position,
                                       const InputContext &context) {
  if (spec.starts_with('@'))
    return loadArguments(spec.substr(1), context.device);
  if (std::optional<c10::IValue> scalar = parseScalar(spec))
    return {std::move(*scalar)};
  return {randomTensor(spec, position, context)};
}

ir::SymValue parseSym(const std::string &text) {
  const size_t equals = text.find('=');
  const auto value = equals == std::string::npos
                         ? std::nullopt
                         : parseNumber<int64_t>(std::string_view(text).substr(equals + 1));
  if (!value || equals == 0)
    userError(fmt::format("--sym '{}': expected NAME=NUMBER, like B=32", text));
  return {text.substr(0, equals), *value};
}

} // namespace graphopt::tools
