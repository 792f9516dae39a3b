// Literals: makers, accessors, and the one place that decides how each kind is written.
#include "ir/attr.h"
#include "ir/hash.h"
#include "ir/quote.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
/// nan has one form in the text, so it has one form here: signs and payloads of nans are not kept.
double canonical(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string floatText(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char buffer[32];
  auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  std::string text(buffer, end);
  bool isFloat = text.find_first_of(".e") != text.npos;
  return isFloat ? text : text + ".0";
}

std::string listText(const std::vector<Attr> &items) {
  bool nested = false;
  std::string out;
  for (const Attr &item : items) {
    out += (out.empty() ? "" : ", ") + toString(item);
    nested |= item.isList();
  }
  return nested ? "[ " + out + " ]" : "[" + out + "]";
}
} // namespace

Attr Attr::boolean(bool value) { return Attr(Variant(value)); }
Attr Attr::integer(Dim value) { return Attr(Variant(std::move(value))); }
Attr Attr::real(double value) { return Attr(Variant(canonical(value))); }
Attr Attr::complex(double re, double im) { return Attr(Variant(std::pair(canonical(re), canonical(im)))); }
Attr Attr::string(std::string value) { return Attr(Variant(Text{std::move(value)})); }
Attr Attr::word(std::string value) { return Attr(Variant(WordText{{std::move(value)}})); }
Attr Attr::list(std::vector<Attr> items) { return Attr(Variant(std::move(items))); }
Attr Attr::opaque(std::string typeName) { return Attr(Variant(OpaqueText{{std::move(typeName)}})); }

Attr Attr::ints(const std::vector<int64_t> &values) {
  std::vector<Attr> items;
  for (int64_t value : values)
    items.push_back(integer(value));
  return list(std::move(items));
}

bool Attr::asBool() const {
  GO_ASSERT(kind() == Kind::Bool, "not a bool: " + toString(*this));
  return std::get<bool>(value_);
}

const Dim &Attr::asDim() const {
  GO_ASSERT(kind() == Kind::Int, "not an integer: " + toString(*this));
  return std::get<Dim>(value_);
}

int64_t Attr::asInt() const { return asDim().value(); }

double Attr::asReal() const {
  GO_ASSERT(kind() == Kind::Float, "not a float: " + toString(*this));
  return std::get<double>(value_);
}

std::pair<double, double> Attr::asComplex() const {
  GO_ASSERT(kind() == Kind::Complex, "not a complex number: " + toString(*this));
  return std::get<std::pair<double, double>>(value_);
}

const std::string &Attr::text() const {
  if (kind() == Kind::Word)
    return std::get<WordText>(value_).text;
  if (kind() == Kind::Opaque)
    return std::get<OpaqueText>(value_).text;
  GO_ASSERT(kind() == Kind::String, "not a text: " + toString(*this));
  return std::get<Text>(value_).text;
}

const std::vector<Attr> &Attr::items() const {
  GO_ASSERT(kind() == Kind::List, "not a list: " + toString(*this));
  return std::get<std::vector<Attr>>(value_);
}

namespace {
bool sameBits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
} // namespace

bool Attr::operator==(const Attr &other) const {
  if (kind() != other.kind())
    return false;
  if (kind() == Kind::Float)
    return sameBits(asReal(), other.asReal());
  if (kind() == Kind::Complex)
    return sameBits(asComplex().first, other.asComplex().first) &&
           sameBits(asComplex().second, other.asComplex().second);
  return value_ == other.value_;
}

std::string toString(const Attr &attr) {
  switch (attr.kind()) {
  case Attr::Kind::None:
    return "none";
  case Attr::Kind::Bool:
    return attr.asBool() ? "true" : "false";
  case Attr::Kind::Int:
    return toString(attr.asDim());
  case Attr::Kind::Float:
    return floatText(attr.asReal());
  case Attr::Kind::Complex:
    return fmt::format("complex({}, {})", floatText(attr.asComplex().first),
                       floatText(attr.asComplex().second));
  case Attr::Kind::String:
    return quoted(attr.text());
  case Attr::Kind::Word:
    return isPlainWord(attr.text()) ? attr.text() : "word " + quoted(attr.text());
  case Attr::Kind::List:
    return listText(attr.items());
  case Attr::Kind::Opaque:
    return "opaque " + quoted(attr.text());
  }
  GO_ASSERT(false, "no such kind of attribute");
}

namespace {
void addTo(Hasher &hasher, const Attr &attr) {
  hasher.add(static_cast<uint64_t>(attr.kind()));
  if (attr.isList()) {
    hasher.add(static_cast<uint64_t>(attr.items().size()));
    for (const Attr &item : attr.items())
      addTo(hasher, item);
  } else if (attr.isInt() && attr.asDim().isConstant()) {
    hasher.add(static_cast<uint64_t>(attr.asInt()));
  } else if (attr.kind() == Attr::Kind::Float) {
    hasher.add(std::bit_cast<uint64_t>(attr.asReal()));
  } else {
    hasher.add(toString(attr));
  }
}
} // namespace

size_t hashOf(const Attr &attr) {
  Hasher hasher;
  addTo(hasher, attr);
  return hasher.value();
}

} // namespace graphopt::ir
