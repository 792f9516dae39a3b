// Effects from rows, catalog and marks; families and chains of views.
#include "ir/alias.h"
#include "ir/effects.h"
#include "ir/op_catalog.h"
#include "ir/op_table.h"

#include "fake_catalog.h"

#include <gtest/gtest.h>

using namespace graphopt::ir;

namespace {
const Type kTensor = Type::tensor(DType::Float, {4});

/// A graph with inputs %x and %stats; ops are appended by the tests.
struct Fixture {
  Graph graph;
  Value *x = graph.declare(Value::Kind::Input, "x", kTensor);
  Value *stats = graph.declare(Value::Kind::Buffer, "stats", kTensor);

  Op *call(std::string name, std::vector<Operand> operands, std::vector<NamedAttr> attrs = {},
           size_t results = 1) {
    std::vector<Graph::ResultSpec> specs(results, {"r", kTensor});
    return graph.append(graph.body(), Op::Kind::Call, std::move(name), std::move(operands), std::move(attrs),
                        specs);
  }
};

Op *batchNorm(Fixture &f, bool training) {
  return f.call("aten.batch_norm",
                {Operand::of(f.x), Operand::none(), Operand::none(), Operand::of(f.stats), Operand::none()},
                {{"training", Attr::boolean(training)}});
}
} // namespace

TEST(OpName, SplitsAndJoins) {
  EXPECT_EQ(splitOpName("aten.add_.Tensor"), (OpName{"aten", "add_", "Tensor"}));
  EXPECT_EQ(splitOpName("aten.relu"), (OpName{"aten", "relu", ""}));
  EXPECT_EQ(splitOpName("mylib::foo.overload"), (OpName{"mylib", "foo", "overload"}));
  EXPECT_EQ(splitOpName("mylib::foo"), (OpName{"mylib", "foo", ""}));
  for (std::string_view name : {"aten.add_.Tensor", "prim.add", "mylib::foo.overload", "plan.launch"})
    EXPECT_EQ(joinOpName(splitOpName(name)), name);
}

TEST(OpTable, PrefersTheExactRowToTheFamily) {
  EXPECT_EQ(findAten("aten.rand.generator"), findAten("aten.rand"));
  EXPECT_EQ(findAten("aten.sum")->autocast, AutocastClass::Fp32Opt);
  EXPECT_EQ(findAten("aten.relu"), nullptr);
  EXPECT_EQ(findAten("aten.matmul.out"), nullptr);
}

TEST(Effects, DrawingAgainIsNoDraw) {
  Fixture f;
  const auto drawIn = [&](Op::Kind kind) {
    Op *region = f.graph.append(f.graph.body(), kind, "", {Operand::of(f.x)}, {}, {{"r", kTensor}});
    Block &body = f.graph.makeBody(region);
    if (kind == Op::Kind::Redraw)
      f.graph.append(body, Op::Kind::Call, std::string(kSetRngState), {Operand::of(f.stats)},
                     {{"device", Attr::word("cuda:1")}});
    Op *draw =
        f.graph.append(body, Op::Kind::Call, "aten.bernoulli.p", {Operand::of(f.x)}, {}, {{"d", kTensor}});
    f.graph.append(body, Op::Kind::Yield, "", {Operand::of(draw->result())});
    return region;
  };
  const Op *update = drawIn(Op::Kind::Update), *redraw = drawIn(Op::Kind::Redraw);
  EXPECT_TRUE(effectsOf(*update, nullptr).random);
  EXPECT_FALSE(isRemovable(*update, nullptr));
  EXPECT_TRUE(isMergeable(*redraw, nullptr));
  EXPECT_EQ(redrawsOn(*redraw), std::vector{*parseDevice("cuda:1")});
  EXPECT_TRUE(redrawsOn(*update).empty());
}

TEST(Effects, BatchNormWritesItsStatisticsOnlyInTraining) {
  Fixture f;
  EXPECT_EQ(hiddenWrites(*batchNorm(f, true)), (std::vector<size_t>{3}));
  EXPECT_TRUE(hiddenWrites(*batchNorm(f, false)).empty());
  EXPECT_TRUE(effectsOf(*batchNorm(f, true), nullptr).writes);
  EXPECT_FALSE(isRemovable(*batchNorm(f, true), nullptr));
  EXPECT_TRUE(isMergeable(*batchNorm(f, false), nullptr));
}

TEST(Effects, DropoutDrawsOnlyWhenItDrops) {
  Fixture f;
  auto dropout = [&](bool train, double p) {
    return f.call("aten.dropout", {Operand::of(f.x)},
                  {{"p", Attr::real(p)}, {"train", Attr::boolean(train)}});
  };
  EXPECT_TRUE(effectsOf(*dropout(true, 0.5), nullptr).random);
  EXPECT_FALSE(effectsOf(*dropout(true, 0), nullptr).random);
  EXPECT_FALSE(effectsOf(*dropout(false, 0.5), nullptr).random);
}

TEST(Effects, OmittedAttributesCountAsTheirDefault) {
  Fixture f;
  std::vector<Operand> qkv = {Operand::of(f.x), Operand::of(f.x), Operand::of(f.x), Operand::none()};
  EXPECT_FALSE(effectsOf(*f.call("aten.scaled_dot_product_attention", qkv), nullptr).random);
  Op *dropping = f.call("aten.scaled_dot_product_attention", qkv, {{"dropout_p", Attr::real(0.1)}});
  EXPECT_TRUE(effectsOf(*dropping, nullptr).random);
  // native_dropout's `train` has no default, and none means true.
  Op *native =
      f.call("aten.native_dropout", {Operand::of(f.x)}, {{"p", Attr::real(0.5)}, {"train", Attr()}}, 2);
  EXPECT_TRUE(effectsOf(*native, nullptr).random);
  EXPECT_TRUE(effectsOf(*f.call("aten.repeat_interleave.Tensor", {Operand::of(f.x)}), nullptr).hostRead);
  Op *sized =
      f.call("aten.repeat_interleave.Tensor", {Operand::of(f.x)}, {{"output_size", Attr::integer(8)}});
  EXPECT_FALSE(effectsOf(*sized, nullptr).hostRead);
}

TEST(Effects, IndexReadsTheHostOnlyForMasks) {
  Fixture f;
  Value *mask = f.graph.declare(Value::Kind::Input, "m", Type::tensor(DType::Bool, {4}));
  Value *places = f.graph.declare(Value::Kind::Input, "i", Type::tensor(DType::Long, {4}));
  auto index = [&](Value *by) {
    return f.call("aten.index.Tensor", {Operand::of(f.x), Operand::list({Operand::none(), Operand::of(by)})});
  };
  EXPECT_TRUE(effectsOf(*index(mask), nullptr).hostRead);
  EXPECT_FALSE(effectsOf(*index(places), nullptr).hostRead);
}

TEST(Effects, EmptyIsRemovableButNotMergeable) {
  Fixture f;
  Op *empty = f.call("aten.empty.memory_format", {});
  EXPECT_TRUE(isRemovable(*empty, nullptr));
  EXPECT_FALSE(isMergeable(*empty, nullptr));
}

TEST(Effects, RowsReplaceTagsAndTheCatalogSpeaksForTheRest) {
  Fixture f;
  FakeCatalog catalog;
  catalog.ops["aten.dropout"].random = true;
  catalog.ops["aten.dropout"].returns.resize(1);
  catalog.ops["mylib::draw"].random = true;
  catalog.ops["mylib::draw"].returns.resize(1);
  catalog.ops["mylib::log"];
  Op *still = f.call("aten.dropout", {Operand::of(f.x)}, {{"train", Attr::boolean(false)}});
  EXPECT_FALSE(effectsOf(*still, &catalog).random);
  EXPECT_TRUE(effectsOf(*f.call("mylib::draw", {}), &catalog).random);
  EXPECT_TRUE(effectsOf(*f.call("mylib::log", {}, {}, 0), &catalog).ordered);
  EXPECT_TRUE(effectsOf(*f.call("mylib::unknown", {}), &catalog).ordered);
  EXPECT_TRUE(isMergeable(*f.call("mylib::unknown", {}), nullptr));
}

TEST(Effects, AnUpdateIsPureUnlessItsBodyDraws) {
  Fixture f;
  for (std::string name : {"aten.add_.Tensor", "aten.bernoulli_.float"}) {
    Op *update =
        f.graph.append(f.graph.body(), Op::Kind::Update, "", {Operand::of(f.x)}, {}, {{"u", kTensor}});
    Block &body = f.graph.makeBody(update);
    Op *clone = f.graph.append(body, Op::Kind::Call, "aten.clone", {Operand::of(f.x)}, {}, {{"c", kTensor}});
    f.graph.append(body, Op::Kind::Call, name, {Operand::of(clone->result(), Mark::Write)});
    f.graph.append(body, Op::Kind::Yield, "", {Operand::of(clone->result())});
    EXPECT_FALSE(effectsOf(*update, nullptr).writes);
    EXPECT_EQ(isMergeable(*update, nullptr), name == "aten.add_.Tensor");
  }
}

TEST(Alias, ChainsLeadFromTheBaseToTheView) {
  Fixture f;
  Op *chunk = f.call("aten.chunk", {Operand::of(f.x, Mark::Alias)}, {}, 2);
  Op *t = f.call("aten.t", {Operand::of(chunk->result(1), Mark::Alias)});
  Op *fresh = f.call("aten.relu", {Operand::of(t->result())});
  AliasInfo alias(f.graph);
  EXPECT_EQ(alias.base(t->result()), f.x);
  EXPECT_TRUE(alias.isView(t->result()));
  std::vector<ViewStep> chain = alias.chain(t->result());
  ASSERT_EQ(chain.size(), 2u);
  EXPECT_EQ(chain[0].op, chunk);
  EXPECT_EQ(chain[0].result, 1u);
  EXPECT_EQ(chain[1].op, t);
  EXPECT_TRUE(alias.hasReplayableChain(t->result()));
  EXPECT_TRUE(alias.mayAlias(chunk->result(0), t->result()));
  EXPECT_FALSE(alias.mayAlias(f.x, fresh->result()));
  EXPECT_TRUE(alias.chain(fresh->result()).empty());
  std::vector<const Value *> family = {f.x, chunk->result(0), chunk->result(1), t->result()};
  EXPECT_EQ(alias.family(t->result()), family);
}

TEST(Alias, AViewOfTwoValuesJoinsTheirFamilies) {
  Fixture f;
  Op *both =
      f.call("aten.broadcast_tensors",
             {Operand::list({Operand::of(f.x, Mark::Alias), Operand::of(f.stats, Mark::Alias)})}, {}, 2);
  AliasInfo alias(f.graph);
  EXPECT_TRUE(alias.mayAlias(f.x, f.stats));
  EXPECT_FALSE(alias.hasReplayableChain(both->result(1)));
  EXPECT_EQ(alias.family(f.stats).size(), 4u);
}

TEST(Alias, GuardsTellWhichDeclaredValuesShareMemory) {
  Fixture f;
  auto add = [&](std::string word) {
    Guard guard;
    guard.kind = "alias";
    guard.operands = {Operand::of(f.x), Operand::of(f.stats)};
    guard.expected = Attr::word(std::move(word));
    f.graph.guards = {guard};
  };
  add("distinct");
  EXPECT_FALSE(AliasInfo(f.graph).mayAlias(f.x, f.stats));
  add("overlap");
  EXPECT_TRUE(AliasInfo(f.graph).mayAlias(f.x, f.stats));
}
