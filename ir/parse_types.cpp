// What stands in statements: dims, literals, attributes, types, operands.
#include "ir/parser.h"
#include "ir/quote.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
constexpr int kMaxDepth = 64;

bool startsDim(const Token &token) {
  return token.kind == Token::Kind::Int || (token.kind == Token::Kind::Ident && isSymName(token.text)) ||
         token.isWord("floordiv") || token.isWord("mod");
}
} // namespace

/// Opens one level of nesting, or reports that there are too many; the caller takes it back with --depth_.
bool Parser::deeper() {
  if (depth_ < kMaxDepth)
    return ++depth_, true;
  error(token_.loc, fmt::format("more than {} levels of nesting", kMaxDepth));
  return false;
}

// ---- dims

/// Dim arithmetic throws when it leaves 64 bits; here that is an error at the dim.
Dim Parser::dim() {
  Loc loc = token_.loc;
  try {
    return dimSum();
  } catch (const Error &tooLarge) {
    error(loc, tooLarge.what());
    return {};
  }
}

Dim Parser::onlyDim(const std::vector<std::string> &syms) {
  for (const std::string &sym : syms)
    syms_.emplace(sym, Loc());
  Dim found = dim();
  if (!failed_ && token_.kind != Token::Kind::End)
    unexpected("the end of the expression");
  return found;
}

Dim Parser::dimSum() {
  Dim sum = dimProduct();
  while (accept("+"))
    sum = sum + dimProduct();
  return sum;
}

Dim Parser::dimProduct() {
  Dim product = dimFactor();
  while (accept("*"))
    product = product * dimFactor();
  return product;
}

Dim Parser::dimFactor() {
  if (token_.kind == Token::Kind::Int)
    return take().integer;
  if (!startsDim(token_)) {
    unexpected("an integer or a sym");
    return {};
  }
  Token name = take();
  if (!isSymName(name.text))
    return dimCall(name.text == "mod");
  std::string sym(name.text);
  if (syms_.contains(sym))
    return Dim::sym(std::move(sym));
  error(name.loc, fmt::format("undeclared sym '{}'; declare it with 'sym {} in [0, inf]'", sym, sym));
  return {};
}

Dim Parser::dimCall(bool isMod) {
  if (!deeper())
    return {};
  expect("(", "to begin the operands");
  Dim a = dimSum();
  expect(",", "between the operands");
  Dim b = dimSum();
  expect(")", "to end the operands");
  --depth_;
  if (failed_)
    return {};
  return isMod ? Dim::mod(a, b) : Dim::floorDiv(a, b);
}

std::vector<Dim> Parser::dims(std::string_view what) {
  std::vector<Dim> dims;
  expect("[", what);
  if (accept("]"))
    return dims;
  do
    dims.push_back(dim());
  while (accept(","));
  expect("]", "to end the list");
  return dims;
}

// ---- literals

Attr Parser::literal() {
  if (startsDim(token_))
    return Attr::integer(dim());
  switch (token_.kind) {
  case Token::Kind::Float:
    return Attr::real(take().real);
  case Token::Kind::String:
    return Attr::string(take().value);
  case Token::Kind::Ident:
    return literalOf(take());
  case Token::Kind::Punct:
    if (at("["))
      return Attr::list(literalList());
    break;
  case Token::Kind::Int: // starts a dim
  case Token::Kind::End:
  case Token::Kind::Error:
  case Token::Kind::ValueName:
  case Token::Kind::GraphName:
    break;
  }
  unexpected("a literal");
  return {};
}

Attr Parser::literalOf(const Token &word) {
  std::string_view text = word.text;
  if (text == "none")
    return {};
  if (text == "true" || text == "false")
    return Attr::boolean(text == "true");
  if (text == "inf")
    return Attr::real(std::numeric_limits<double>::infinity());
  if (text == "nan")
    return Attr::real(std::numeric_limits<double>::quiet_NaN());
  if (text == "complex")
    return complexLiteral();
  if (text == "opaque")
    return Attr::opaque(expectName(Token::Kind::String, "the name of the opaque type, quoted"));
  if (text == "word")
    return Attr::word(expectName(Token::Kind::String, "the word, quoted"));
  if (isPlainWord(text))
    return Attr::word(std::string(text));
  error(word.loc, fmt::format("'{}' is no literal; words are lower case, other texts are quoted", text));
  return {};
}

Attr Parser::complexLiteral() {
  expect("(", "to begin the real part");
  double re = complexPart();
  expect(",", "and the imaginary part");
  double im = complexPart();
  expect(")", "to end the complex number");
  return Attr::complex(re, im);
}

double Parser::complexPart() {
  if (token_.kind == Token::Kind::Float)
    return take().real;
  if (atWord("inf") || atWord("nan"))
    return literalOf(take()).asReal();
  unexpected("a float, as 1.0");
  return 0;
}

std::vector<Attr> Parser::literalList() {
  std::vector<Attr> items;
  if (!deeper())
    return items;
  expect("[", "to begin the list");
  if (!at("]")) {
    do
      items.push_back(literal());
    while (accept(","));
  }
  expect("]", "to end the list");
  --depth_;
  return items;
}

/// {key=value, ...}, or nothing.
std::vector<NamedAttr> Parser::attributes() {
  std::vector<NamedAttr> attrs;
  if (!accept("{"))
    return attrs;
  ++openAttrs_;
  std::unordered_set<std::string> seen;
  do {
    Loc loc = token_.loc;
    attrs.push_back(attribute());
    if (!seen.insert(attrs.back().name).second)
      error(loc, fmt::format("attribute '{}' is given twice", attrs.back().name));
  } while (accept(","));
  expect("}", "to end the attributes");
  openAttrs_ -= !failed_;
  return attrs;
}

NamedAttr Parser::attribute() {
  NamedAttr attr;
  attr.name = expectKey("an attribute, as dim=1");
  expect("=", "and the attribute's value");
  attr.value = literal();
  return attr;
}

// ---- types

Type Parser::type() {
  if (token_.kind != Token::Kind::Ident) {
    unexpected("a type, as f32[2, 3]");
    return {};
  }
  Token name = take();
  std::optional<DType> dtype = parseDType(name.text);
  if (at("[") && dtype)
    return tensorType(*dtype);
  using enum Type::Kind;
  for (Type::Kind kind : {Int, Float, Bool, List, None})
    if (!at("[") && name.text == toString(Type::scalar(kind)))
      return Type::scalar(kind);
  if (dtype)
    unexpected("'[' and the sizes");
  error(name.loc, fmt::format("unknown {} '{}'", at("[") ? "dtype" : "type", name.text));
  return {};
}

Type Parser::tensorType(DType dtype) {
  Type type = Type::tensor(dtype, dims("to begin the sizes"));
  auto flag = [&](std::string_view word) { return atWord(word) && (take(), true); };
  Loc loc = token_.loc;
  if (flag("strides")) {
    expect("=", "and the strides");
    setStrides(type, dims("to begin the strides"), loc);
  }
  if (flag("device")) {
    expect("=", "and the device");
    type.device = device();
    if (type.device == graph_->device)
      type.device.reset();
  }
  type.wrapped = flag("wrapped");
  type.conj = flag("conj");
  type.neg = flag("neg");
  type.grad = flag("grad");
  return type;
}

void Parser::setStrides(Type &type, std::vector<Dim> strides, Loc loc) {
  if (!failed_ && strides.size() != type.sizes.size())
    error(loc, fmt::format("{} strides for {} sizes", strides.size(), type.sizes.size()));
  if (failed_)
    return;
  try {
    type.setStrides(std::move(strides));
  } catch (const Error &tooLarge) {
    error(loc, tooLarge.what());
  }
}

Device Parser::device() {
  std::optional<Device> device;
  if (token_.kind == Token::Kind::Ident)
    device = parseDevice(token_.text);
  if (device)
    return take(), *device;
  unexpected("a device, as cpu or cuda:0");
  return {};
}

// ---- operands

std::vector<Operand> Parser::operandList(std::string_view close, std::string_view what) {
  std::vector<Operand> operands;
  if (!at(close))
    operands = bareOperands();
  expect(close, what);
  return operands;
}

std::vector<Operand> Parser::bareOperands() {
  std::vector<Operand> operands;
  if (at("}") || token_.kind == Token::Kind::End)
    return operands;
  do
    operands.push_back(operand());
  while (accept(","));
  return operands;
}

Operand Parser::operand() {
  Loc loc = token_.loc;
  if (token_.kind == Token::Kind::ValueName || at("&"))
    return valueOperand();
  Operand operand;
  if (at("[")) {
    operand = Operand::list({});
    if (!deeper())
      return operand;
    take();
    operand.items = operandList("]", "to end the list");
    --depth_;
  } else {
    operand = Operand::lit(literal());
  }
  operand.loc = loc;
  return operand;
}

Operand Parser::valueOperand() {
  Loc loc = token_.loc;
  Mark mark = Mark::None;
  if (accept("&")) {
    mark = atWord("mut") ? Mark::Write : Mark::Alias;
    if (mark == Mark::Write)
      take();
  }
  if (token_.kind != Token::Kind::ValueName) {
    unexpected("a value, as %x");
    return {};
  }
  Token name = take();
  if (name.loc.line == loc.line)
    loc.length = name.loc.column + name.loc.length - loc.column;
  Operand operand = Operand::of(use(name), mark);
  operand.loc = loc;
  return operand;
}

/// The value of that name, if it is defined and visible here.
Value *Parser::use(const Token &name) {
  std::string text = valueText(name.value);
  if (broken_.contains(name.value))
    return fail(), nullptr;
  Value *value = graph_->find(name.value);
  auto pending = pending_.find(name.value);
  if (!value && pending != pending_.end()) {
    error(name.loc, fmt::format("'{}' is used in its own definition", text),
          {{pending->second, fmt::format("'{}' is defined here", text)}});
    return nullptr;
  }
  if (!value) {
    error(name.loc, fmt::format("undefined value '{}'", text));
    return nullptr;
  }
  auto isOpen = [&](const Block *block) { return block == value->def->parent(); };
  if (value->isResult() && std::none_of(openBlocks_.begin(), openBlocks_.end(), isOpen)) {
    error(name.loc, fmt::format("'{}' is defined in a body and not visible here", text),
          {declaredHere(*value)});
    return nullptr;
  }
  return value;
}

} // namespace graphopt::ir
