// Every value that a schema can ask for becomes a literal that its text gives back.
#include "capture/to_attr.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "recording.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <limits>

namespace graphopt::capture {
namespace {

using ir::Attr;

/// The literal after a trip through the text of a graph.
Attr reread(const Attr &attr) {
  ir::Graph graph;
  graph.append(graph.body(), ir::Op::Kind::Call, "aten.test", {}, {{"a", attr}});
  graph.append(graph.body(), ir::Op::Kind::Return, "", {});
  ir::Graph parsed = ir::parseGraph(ir::print(graph));
  return *(*parsed.body().begin())->attr("a");
}

TEST(Attributes, BySchemaType) {
  auto text = [](const c10::IValue &value, const c10::TypePtr &type) {
    return toString(toAttr(value, *type));
  };
  EXPECT_EQ(text(static_cast<int64_t>(at::kBFloat16), c10::ScalarTypeType::get()), "bf16");
  EXPECT_EQ(text(static_cast<int64_t>(c10::Layout::Strided), c10::LayoutType::get()), "strided");
  EXPECT_EQ(text(static_cast<int64_t>(at::MemoryFormat::ChannelsLast), c10::MemoryFormatType::get()),
            "channels_last");
  EXPECT_EQ(text(c10::Device("cuda:1"), c10::DeviceObjType::get()), "cuda:1");
  EXPECT_EQ(text({}, c10::OptionalType::create(c10::ScalarTypeType::get())), "none");
  EXPECT_EQ(text(c10::List<int64_t>({1, -2}), c10::ListType::ofInts()), "[1, -2]");
  EXPECT_EQ(text(2.5, c10::NumberType::get()), "2.5");
  EXPECT_EQ(text(true, c10::NumberType::get()), "true");
  EXPECT_EQ(text(at::Generator(), c10::GeneratorType::get()), "opaque \"Generator\"");
}

TEST(Attributes, ReadBackFromTheirText) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<c10::IValue> values = {c10::IValue(),
                                     true,
                                     false,
                                     0,
                                     -1,
                                     std::numeric_limits<int64_t>::max(),
                                     std::numeric_limits<int64_t>::min(),
                                     0.0,
                                     -0.0,
                                     1e-5,
                                     0.1,
                                     1e300,
                                     5e-324,
                                     inf,
                                     -inf,
                                     nan,
                                     "sum",
                                     "quote \" and \\ and \n",
                                     c10::Device("cpu"),
                                     c10::Device("cuda:3"),
                                     c10::complex<double>(1, -2.5),
                                     c10::complex<double>(-0.0, inf),
                                     c10::List<int64_t>(),
                                     c10::List<int64_t>({1, 2, 3}),
                                     c10::List<double>({0.5, -inf}),
                                     c10::List<bool>({true, false}),
                                     c10::List<std::string>({"a", ""})};
  for (const c10::IValue &value : values) {
    Attr attr = toAttr(value);
    EXPECT_EQ(reread(attr), attr) << toString(attr);
  }
}

/// All defaults of all operators of the dispatcher: thousands of values of every schema type.
TEST(Attributes, AllDefaultsOfAllOperatorsReadBack) {
  size_t seen = 0;
  std::set<std::string> texts; // most defaults are the same few
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op)
      continue;
    for (const c10::Argument &argument : op->schema().arguments()) {
      if (!argument.default_value())
        continue;
      Attr attr = toAttr(*argument.default_value(), *argument.real_type());
      ++seen;
      if (!texts.insert(toString(attr)).second)
        continue;
      EXPECT_EQ(reread(attr), attr) << argument.name() << " of " << name;
    }
  }
  EXPECT_GT(seen, 2000u);
}

TEST(Attributes, DefaultsAreLeftOutByBits) {
  auto body = [](double eps) {
    return bodyOf(recordBody([=](const Tensors &x) { return at::layer_norm(x[0], {3}, {}, {}, eps, false); },
                             {ramp({3})}));
  };
  EXPECT_EQ(body(1e-5).find("eps"), std::string::npos) << body(1e-5);
  EXPECT_NE(body(1e-6).find("eps=1e-06"), std::string::npos) << body(1e-6);
}

TEST(Contents, OfEveryKind) {
  EXPECT_EQ(toString(contentOf(at::scalar_tensor(3, at::kInt))), "3");
  EXPECT_EQ(toString(contentOf(at::ones({2}, at::kBool))), "[true, true]");
  EXPECT_EQ(toString(contentOf(ramp({2, 2}).t())), "[ [0.0, 2.0], [1.0, 3.0] ]");
  EXPECT_EQ(toString(contentOf(at::full({1}, 0.1, at::kBFloat16))), "[0.10009765625]");
  EXPECT_EQ(toString(contentOf(at::zeros({0, 3}))), "[]");
}

} // namespace
} // namespace graphopt::capture
