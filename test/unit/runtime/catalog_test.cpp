// What the catalog says of the dispatcher's operators, and constants evaluated by the operators themselves.
#include "runtime/catalog.h"

#include "ir/graph.h"

#include <gtest/gtest.h>
#include <thread>

namespace graphopt::runtime {
namespace {
using ir::Attr;
using Role = ir::ArgInfo::Role;

const ir::OpInfo &info(std::string_view name) {
  const ir::OpInfo *found = dispatcherCatalog().find(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

TEST(Catalog, schemaFacts) {
  const ir::OpInfo &add = info("aten.add_.Tensor");
  ASSERT_EQ(add.args.size(), 3u);
  EXPECT_EQ(add.args[0].role, Role::Tensor);
  EXPECT_TRUE(add.args[0].written);
  EXPECT_EQ(add.args[0].aliasSet, "a");
  EXPECT_FALSE(add.args[1].written);
  EXPECT_EQ(add.args[2].dflt, Attr::integer(1));
  EXPECT_TRUE(add.args[2].kwargOnly);
  EXPECT_EQ(add.returns[0].aliasSet, "a");

  const ir::OpInfo &out = info("aten.add.out");
  EXPECT_TRUE(out.args.back().out && out.args.back().written);

  const ir::OpInfo &norm = info("aten.batch_norm");
  EXPECT_TRUE(norm.args[1].optional);
  EXPECT_EQ(norm.operandIndex("running_var"), 4u);
  EXPECT_EQ(norm.operandIndex("eps"), std::nullopt);

  EXPECT_EQ(info("aten.cat").args[0].role, Role::TensorList);
  EXPECT_EQ(info("aten.index.Tensor").args[1].role, Role::TensorList);
  EXPECT_EQ(info("aten.index.Tensor").args[1].type, "Tensor?[]");
  EXPECT_TRUE(info("aten.chunk").returns[0].isTensorList);
  EXPECT_EQ(info("aten.chunk").args[0].aliasSet, "a");
  EXPECT_EQ(info("aten.max_pool2d").args[1].type, "int[2]");
  EXPECT_EQ(info("aten.zeros").args[1].type, "ScalarType?");
}

TEST(Catalog, tags) {
  EXPECT_TRUE(info("aten.dropout").random);
  EXPECT_TRUE(info("aten.nonzero").dataDependent);
  EXPECT_TRUE(info("aten.item").dataDependent);
  EXPECT_TRUE(info("aten.t_").metadataOnly);
  EXPECT_TRUE(info("aten.add.Tensor").pointwise);
  EXPECT_TRUE(info("aten.linear").composite);
  EXPECT_FALSE(info("aten.mm").composite);
}

TEST(Catalog, unknownOperatorsAreNull) {
  for (std::string_view name :
       {"aten.no_such_operator", "aten.add.NoSuchOverload", "prim.add", "", "add", "::", "x::y.z"})
    EXPECT_EQ(dispatcherCatalog().find(name), nullptr) << name;
}

TEST(Catalog, entriesAreSharedBetweenThreads) {
  std::vector<const ir::OpInfo *> seen(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < seen.size(); ++i)
    threads.emplace_back([&, i] { seen[i] = dispatcherCatalog().find("aten.hardtanh"); });
  for (std::thread &thread : threads)
    thread.join();
  for (const ir::OpInfo *entry : seen)
    EXPECT_EQ(entry, seen[0]);
}

struct Evaluation {
  ir::Graph graph;
  ir::Type ints(std::vector<ir::Dim> sizes) { return ir::Type::tensor(at::kLong, std::move(sizes)); }
  std::optional<std::vector<Attr>> run(std::string op, std::vector<ir::Type> operands,
                                       std::vector<ir::NamedAttr> attrs, std::vector<ir::Type> results,
                                       const std::vector<Attr> &contents) {
    std::vector<ir::Operand> uses;
    for (ir::Type &type : operands)
      uses.push_back(ir::Operand::of(graph.declare(ir::Value::Kind::Const, graph.freshName("k"), type)));
    std::vector<ir::Graph::ResultSpec> specs;
    for (ir::Type &type : results)
      specs.push_back({"r", type});
    ir::Op *made =
        graph.append(graph.body(), ir::Op::Kind::Call, std::move(op), uses, std::move(attrs), specs);
    return dispatcherCatalog().evaluate(*made, contents);
  }
};

TEST(Catalog, evaluatesSmallIntegers) {
  Evaluation e;
  auto sum = e.run("aten.add.Tensor", {e.ints({2}), e.ints({})}, {{"alpha", Attr::integer(2)}}, {e.ints({2})},
                   {Attr::ints({1, 2}), Attr::integer(10)});
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->at(0), Attr::ints({21, 22}));
  auto size = e.run("aten.size.int", {e.ints({2, 3})}, {{"dim", Attr::integer(1)}},
                    {ir::Type::scalar(ir::Type::Kind::Int)},
                    {Attr::list({Attr::ints({1, 2, 3}), Attr::ints({4, 5, 6})})});
  ASSERT_TRUE(size);
  EXPECT_EQ(size->at(0), Attr::integer(3));
  auto less = e.run("aten.lt.Scalar", {e.ints({2})}, {{"other", Attr::integer(2)}},
                    {ir::Type::tensor(at::kBool, {2})}, {Attr::ints({1, 2})});
  ASSERT_TRUE(less);
  EXPECT_EQ(less->at(0), Attr::list({Attr::boolean(true), Attr::boolean(false)}));
}

TEST(Catalog, doesNotEvaluateWhatItMustNot) {
  Evaluation e;
  ir::Type f32 = ir::Type::tensor(at::kFloat, {2});
  Attr two = Attr::ints({1, 2});
  EXPECT_FALSE(
      e.run("aten.add_.Tensor", {e.ints({2}), e.ints({2})}, {}, {e.ints({2})}, {two, two}));       // writes
  EXPECT_FALSE(e.run("aten.sin", {f32}, {}, {f32}, {Attr::list({Attr::real(1), Attr::real(2)})})); // floats
  EXPECT_FALSE(e.run("aten.full", {}, {{"size", Attr::ints({1 << 20})}, {"fill_value", Attr::integer(1)}},
                     {e.ints({1 << 20})}, {})); // large
  EXPECT_FALSE(
      e.run("aten.view", {e.ints({2})}, {{"size", Attr::ints({3})}}, {e.ints({3})}, {two})); // raises
  EXPECT_FALSE(e.run("aten.nothing", {e.ints({2})}, {}, {e.ints({2})}, {two}));              // unknown
}

} // namespace
} // namespace graphopt::runtime
