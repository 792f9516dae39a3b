// Every argument type and default that an operator of the dispatcher has goes to a literal, through its text
// form's value, and back to an equal stack value.
#include "runtime/operator.h"
#include "runtime/to_ivalue.h"

#include "graphopt/error.h"

#include <cmath>
#include <gtest/gtest.h>

namespace graphopt::runtime {
namespace {
using c10::IValue;
using c10::TypeKind;
using ir::Attr;

std::vector<std::string> allOperators() {
  std::vector<std::string> names;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    auto ns = name.getNamespace();
    if (!ns || (*ns != "aten" && *ns != "quantized" && *ns != "prims"))
      continue;
    std::string base = name.name.substr(ns->size() + 2);
    names.push_back(ir::joinOpName({std::string(*ns), base, name.overload_name}));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A value of each schema type, as the dispatcher would pass it; nothing for types that have no literal.
std::vector<IValue> samples(const c10::TypePtr &type) {
  switch (type->kind()) {
  case TypeKind::IntType:
  case TypeKind::SymIntType:
    return {IValue(int64_t(0)), IValue(int64_t(-7)), IValue(std::numeric_limits<int64_t>::max())};
  case TypeKind::FloatType:
    return {IValue(0.1), IValue(-0.0), IValue(INFINITY), IValue(1e-300)};
  case TypeKind::BoolType:
    return {IValue(true), IValue(false)};
  case TypeKind::NumberType:
    return {IValue(int64_t(3)), IValue(3.0), IValue(true), IValue(c10::complex<double>(1, -2))};
  case TypeKind::StringType:
    return {IValue("floor"), IValue("")};
  case TypeKind::ScalarTypeType:
    return {IValue(int64_t(at::kBFloat16)), IValue(int64_t(at::kBool))};
  case TypeKind::LayoutType:
    return {IValue(int64_t(at::kStrided)), IValue(int64_t(at::kSparseCsr))};
  case TypeKind::MemoryFormatType:
    return {IValue(int64_t(at::MemoryFormat::ChannelsLast))};
  case TypeKind::DeviceObjType:
    return {IValue(c10::Device("cpu")), IValue(c10::Device("cuda:1"))};
  case TypeKind::OptionalType: {
    auto inner = samples(type->castRaw<c10::OptionalType>()->getElementType());
    if (!inner.empty())
      inner.push_back(IValue());
    return inner;
  }
  case TypeKind::ListType: {
    c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
    auto inner = samples(element);
    if (inner.empty())
      return {};
    c10::TypePtr onStack =
        element->kind() == TypeKind::SymIntType ? c10::TypePtr(c10::IntType::get()) : element;
    c10::impl::GenericList all(onStack), none(onStack);
    for (const IValue &item : inner)
      all.push_back(item);
    return {IValue(all), IValue(none)};
  }
  default:
    return {}; // the kinds of c10 types are open; tensors, generators, objects have no literal
  }
}

bool equal(const IValue &a, const IValue &b) {
  if (a.isDouble() && b.isDouble())
    return std::memcmp(&static_cast<const double &>(a.toDouble()), &static_cast<const double &>(b.toDouble()),
                       8) == 0;
  if (a.isList() != b.isList() || a.isList() == false)
    return a.tagKind() == b.tagKind() && a == b;
  auto left = a.toListRef(), right = b.toListRef();
  bool same = left.size() == right.size();
  for (size_t i = 0; same && i < left.size(); ++i)
    same = equal(left[i], right[i]);
  return same;
}

TEST(ToIValue, everyDefaultOfEveryOperatorReturns) {
  size_t checked = 0;
  for (const std::string &name : allOperators()) {
    const Operator &op = requireOperator(name);
    for (size_t i = 0; i < op.info.args.size(); ++i) {
      const c10::Argument &argument = op.schema().arguments()[i];
      if (op.info.args[i].role != ir::ArgInfo::Role::Attr || !argument.default_value())
        continue;
      IValue back = toIValue(*op.info.args[i].dflt, argument, name);
      EXPECT_TRUE(equal(back, *argument.default_value())) << name << " " << argument.name();
      ++checked;
    }
  }
  EXPECT_GT(checked, 2000u);
}

TEST(ToIValue, everyArgumentTypeReturns) {
  std::map<std::string, size_t> types;
  std::set<std::string> without;
  for (const std::string &name : allOperators()) {
    const Operator &op = requireOperator(name);
    for (size_t i = 0; i < op.info.args.size(); ++i) {
      const c10::Argument &argument = op.schema().arguments()[i];
      if (op.info.args[i].role != ir::ArgInfo::Role::Attr)
        continue;
      auto values = samples(argument.real_type());
      if (values.empty())
        without.insert(argument.real_type()->str());
      for (const IValue &value : values) {
        IValue back = toIValue(toAttr(value, *argument.real_type()), argument, name);
        EXPECT_TRUE(equal(back, value)) << name << " " << schemaTypeText(argument);
      }
      types[argument.real_type()->str()] += values.size();
    }
  }
  EXPECT_GT(types.size(), 20u);
  // What has no literal is listed, so that a new kind is noticed.
  std::set<std::string> expected = {"Any", "Generator?", "Storage", "Stream"};
  for (const std::string &type : without)
    EXPECT_TRUE(expected.contains(type) || type.find("__torch__") == 0) << type;
}

const c10::Argument &argumentOf(std::string_view op, std::string_view name) {
  for (const c10::Argument &argument : requireOperator(op).schema().arguments())
    if (argument.name() == name)
      return argument;
  throw std::out_of_range(std::string(name));
}

TEST(ToIValue, scalarsKeepTheirKind) {
  const c10::Argument &alpha = argumentOf("aten.add.Tensor", "alpha");
  EXPECT_TRUE(toIValue(Attr::integer(2), alpha, "op").isInt());
  EXPECT_TRUE(toIValue(Attr::real(2), alpha, "op").isDouble());
  EXPECT_TRUE(toIValue(Attr::boolean(true), alpha, "op").isBool());
  EXPECT_TRUE(toIValue(Attr::complex(1, 2), alpha, "op").isComplexDouble());
}

TEST(ToIValue, oneNumberFillsASizedList) {
  const c10::Argument &stride = argumentOf("aten.max_pool2d", "kernel_size");
  EXPECT_EQ(toIValue(Attr::integer(3), stride, "op").toIntVector(), (std::vector<int64_t>{3, 3}));
}

TEST(ToIValue, symsTakeTheirValues) {
  const c10::Argument &size = argumentOf("aten.view", "size");
  Attr attr = Attr::list({Attr::integer(ir::Dim::sym("B") * ir::Dim(2)), Attr::integer(-1)});
  EXPECT_EQ(toIValue(attr, size, "op", {{"B", 4}}).toIntVector(), (std::vector<int64_t>{8, -1}));
  EXPECT_THROW(toIValue(attr, size, "op"), Error);
}

std::string failure(const Attr &attr, const c10::Argument &argument) {
  try {
    toIValue(attr, argument, "aten.foo");
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    return error.what();
  }
  return "";
}

TEST(ToIValue, misfitsNameOpAttributeAndType) {
  const c10::Argument &dtype = argumentOf("aten.zeros", "dtype");
  EXPECT_EQ(failure(Attr::word("purple"), dtype),
            "'aten.foo' op attribute 'dtype' is purple, expected ScalarType?");
  EXPECT_EQ(failure(Attr::string("f32"), dtype),
            "'aten.foo' op attribute 'dtype' is \"f32\", expected ScalarType?");
  const c10::Argument &generator = argumentOf("aten.bernoulli", "generator");
  EXPECT_NE(failure(Attr::opaque("Generator"), generator).find("cannot be run"), std::string::npos);
  EXPECT_TRUE(toIValue(Attr(), generator, "op").isNone());
}

} // namespace
} // namespace graphopt::runtime
