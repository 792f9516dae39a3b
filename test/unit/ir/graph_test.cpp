// The graph's structure: use lists, names, interned states, erasing, cloning.
#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/print.h"

#include <algorithm>
#include <graphopt/error.h>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace graphopt::ir {
namespace {

Type f32() { return Type::tensor(DType::Float, {2}); }

/// Every use list says exactly what the operands say.
void expectTrueUseLists(Graph &graph) {
  std::map<const Value *, std::vector<const Op *>> expected, actual;
  walk(graph.body(), [&](Op &op) {
    op.forEachValue([&](const Operand &operand) { expected[operand.value].push_back(&op); });
    for (Value *result : op.results())
      for (Op *user : result->users())
        actual[result].push_back(user);
  });
  for (Value *value : graph.declarations())
    for (Op *user : value->users())
      actual[value].push_back(user);
  for (auto *map : {&expected, &actual})
    for (auto &[value, users] : *map)
      std::sort(users.begin(), users.end());
  EXPECT_EQ(expected, actual);
}

TEST(Graph, UseListsStayTrueUnderRandomEdits) {
  std::mt19937 random(3);
  Graph graph;
  std::vector<Value *> values;
  for (int i = 0; i < 5; ++i)
    values.push_back(graph.declare(Value::Kind::Input, "x" + std::to_string(i), f32()));
  auto any = [&] { return values[random() % values.size()]; };
  for (int step = 0; step < 400; ++step) {
    std::vector<Op *> ops = graph.body().ops();
    Op *op = ops.empty() ? nullptr : ops[random() % ops.size()];
    switch (op ? random() % 5 : 0) {
    case 0:
      values.push_back(graph
                           .append(graph.body(), Op::Kind::Call, "aten.cat",
                                   {Operand::list({Operand::of(any()), Operand::none(), Operand::of(any())}),
                                    Operand::of(any(), Mark::Alias)},
                                   {}, {{"r", f32()}})
                           ->result());
      break;
    case 1:
      op->setOperand(1, Operand::of(any()));
      break;
    case 2:
      op->setOperands({Operand::list({Operand::of(any()), Operand::of(any())}), Operand::of(any())});
      break;
    case 3:
      if (Value *from = any(), *to = any(); from != to) {
        graph.replaceAllUses(from, to);
        EXPECT_FALSE(from->hasUses());
      }
      break;
    case 4:
      if (!op->result()->hasUses()) {
        std::erase(values, op->result());
        graph.erase(op);
      }
      break;
    }
  }
  expectTrueUseLists(graph);
}

TEST(Graph, ReplacedUsesKeepTheirMarks) {
  Graph graph = parseGraph(
      "graph @g { input %a: f32[2] input %b: f32[2] aten.add_.Tensor(&mut %a, [&%a, none]) return }");
  graph.replaceAllUses(graph.find("a"), graph.find("b"));
  EXPECT_EQ(print(*graph.body().ops()[0]), "aten.add_.Tensor(&mut %b, [&%b, none])");
}

TEST(Graph, NamesAreGivenOnce) {
  Graph graph;
  Op *first =
      graph.append(graph.body(), Op::Kind::Call, "aten.x", {}, {}, {{"a", f32()}, {"a", f32()}, {"", f32()}});
  EXPECT_EQ(first->result(0)->name, "a");
  EXPECT_EQ(first->result(1)->name, "a.1");
  EXPECT_EQ(first->result(2)->name, "0");
  graph.erase(first);
  EXPECT_EQ(graph.find("a"), nullptr);
  EXPECT_EQ(graph.freshName("a"), "a.2"); // never again, also after the value is gone
}

TEST(Graph, StatesAreInternedByContent) {
  Graph graph;
  OpState fc{"fc", false, {{"amp", Attr::word("bf16")}}};
  EXPECT_EQ(graph.intern(OpState{}), 0u);
  uint32_t first = graph.intern(fc);
  EXPECT_EQ(graph.intern(fc), first);
  fc.scopeGuessed = true;
  EXPECT_NE(graph.intern(fc), first);
  Graph copy = graph.clone();
  EXPECT_EQ(copy.intern(fc), graph.intern(fc));
}

TEST(Graph, TheGraphsDeviceGoesWithoutSaying) {
  Graph graph;
  graph.device = {"cuda", 0};
  Type type = f32();
  type.device = Device{"cuda", 0};
  EXPECT_EQ(toString(graph.declare(Value::Kind::Input, "x", type)->type), "f32[2]");
  type.device = Device{"cpu", -1};
  EXPECT_EQ(toString(graph.declare(Value::Kind::Input, "y", type)->type), "f32[2] device=cpu");
}

TEST(Graph, LiteralListsAreListsOfLiterals) {
  Attr list = Attr::list({Attr::integer(1), Attr(), Attr::list({Attr::real(2)})});
  Operand operand = Operand::lit(list);
  EXPECT_EQ(operand.kind, Operand::Kind::List);
  EXPECT_EQ(operand.asAttr(), list);
  EXPECT_EQ(Operand::lit(Attr()).kind, Operand::Kind::None);
  Graph graph;
  Value *x = graph.declare(Value::Kind::Input, "x", f32());
  EXPECT_EQ(Operand::list({Operand::of(x)}).asAttr(), std::nullopt);
}

TEST(Graph, ErasingAUsedValueIsCaught) {
  Graph graph = parseGraph("graph @g { input %a: f32[2] %b: f32[2] = aten.relu(%a) return %b }");
  EXPECT_THROW(graph.erase(graph.find("b")->def), Error);
  EXPECT_THROW(graph.eraseDeclaration(graph.find("a")), Error);
}

TEST(Graph, AnErasedDeclarationTakesItsGuards) {
  Graph graph = parseGraph("graph @g { input %a: f32[2] input %b: f32[2] guard #0 meta(%a) == f32[2] "
                           "guard #1 alias([%b, %a]) == true guard #2 meta(%b) == f32[2] return %b }");
  graph.eraseDeclaration(graph.find("a"));
  ASSERT_EQ(graph.guards.size(), 1u);
  EXPECT_EQ(graph.guards[0].number, 2);
}

constexpr const char *kRich =
    R"(graph @g version=1 stage=captured form=functional device=cuda:0 matmul=highest {
  sym B in [1, 8]
  input %x: f32[B, 2]
  buffer %h: f32[2]
  const %k: i64[2] = [1, 2]
  guard #0 meta(%x) == f32[B, 2]
  guard #1 pair([%x, %h]) == true
  scope "a" {grad=off}
  %y: f32[2], %n: int = group "k" rows (%x) with {t=1} {
    %0: f32[2] = prim.sum(%x) {dims=[0]}
    yield %0, 3
  }
  %h.1: f32[2] = update (%h, %y) {
    %c: f32[2] = aten.clone(%h)
    scope ~"b"
    aten.add_.Tensor(&mut %c, %y)
    yield %c
  }
  border #2 read %y reason="x"
  writeback %h <- %h.1
  return %y, [%x, none]
})";

TEST(Graph, ACloneIsEqualAndIndependent) {
  Graph graph = parseGraph(kRich);
  Graph copy = graph.clone();
  EXPECT_EQ(difference(graph, copy, {.names = true}), "");
  EXPECT_EQ(print(graph), print(copy));
  EXPECT_EQ(structuralHash(graph), structuralHash(copy));
  expectTrueUseLists(copy);
  std::string before = print(graph);
  copy.erase(copy.returnOp());
  copy.guards.clear();
  EXPECT_EQ(print(graph), before);
}

} // namespace
} // namespace graphopt::ir
