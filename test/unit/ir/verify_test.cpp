// Invariants that no text can break, because the parser refuses it first, and those that need a catalog.
#include "ir/verify.h"

#include "ir/parse.h"

#include "fake_catalog.h"

#include <graphopt/error.h>
#include <gtest/gtest.h>

using namespace graphopt::ir;

namespace {
const Type kTensor = Type::tensor(DType::Float, {2});

std::vector<std::string> errors(const Graph &graph, const OpCatalog *catalog = nullptr) {
  Diagnostics diagnostics;
  bool valid = verify(graph, diagnostics, catalog);
  EXPECT_EQ(valid, diagnostics.all().empty());
  std::vector<std::string> messages;
  for (const Diagnostic &diagnostic : diagnostics.all())
    messages.push_back(diagnostic.message);
  return messages;
}

std::vector<std::string> errors(const std::string &text, const OpCatalog *catalog = nullptr) {
  return errors(parseGraph(text), catalog);
}

using Messages = std::vector<std::string>;

/// %x, %y = op(%x), return %y.
struct Small {
  Graph graph;
  Value *x = graph.declare(Value::Kind::Input, "x", kTensor);
  Op *op = graph.append(graph.body(), Op::Kind::Call, "t::op", {Operand::of(x)}, {}, {{"y", kTensor}});
  Op *end = graph.append(graph.body(), Op::Kind::Return, "", {Operand::of(op->result())});
};

std::string inBody(const std::string &line) {
  return "graph @g {\n  input %x: f32[2]\n  " + line + "\n  return %x\n}\n";
}
} // namespace

TEST(Verify, AcceptsWhatTheLanguageCanSay) {
  EXPECT_EQ(errors(R"(
graph @net version=1 stage=captured form=raw device=cpu {
  sym U in [0, inf]
  input   %x: f32[2, 16]
  param   %fc.weight: f32[4, 16]
  outside %h0: f32[2, 4]
  hostval %n0: int = 3
  const   %k: i64[3] = [1, 2, 3]
  guard #0 meta(%x) == f32[2, 16]
  guard #1 grad_mode == off
  guard #2 autocast(cpu) == bf16
  guard #3 alias(%x, %h0) == distinct
  guard #4 sym(U) in [0, 16]
  guard #5 dim(2*U + 1) <= 33
  %n: int = aten.size.int(%x) {dim=0}
  %a, %b: f32[2, 8] = aten.chunk(&%x) {chunks=2, dim=1}
  %c: f32[2, 16] = aten.cat([%a, %b]) {dim=1}
  aten.add_.Tensor(&mut %h0, %h0) {alpha=2}
  %nz: i64[U, 2] = aten.nonzero(%c)
  border #0 read %nz reason="nonzero"
  return &%a, %c, none
})"),
            Messages{});
  EXPECT_EQ(errors(R"(
graph @net stage=captured form=functional {
  input %x: f32[2, 4]
  buffer %h: f32[2, 4]
  %y, %h.1: f32[2, 4] = update (%h, %x) {
    %c: f32[2, 4] = aten.clone(%h)
    %v: f32[4] = aten.select.int(&%c) {dim=0, index=1}
    aten.add_.Tensor(&mut %v, %x)
    %r: f32[2, 4] = aten.relu(%x)
    yield %r, %c
  }
  %v.1: f32[4] = aten.select.int(&%h) {dim=0, index=1}
  writeback %h <- %h.1
  return &%v.1, %y
})"),
            Messages{});
  EXPECT_EQ(errors(R"(
graph @net stage=fused {
  sym B in [1, inf]
  input %x: f32[B, 8]
  %y: f32[B] = group "k0" rows (%x) {
    %0: f32[B, 8] = prim.mul(%x, %x)
    %1: f32[B] = prim.sum(%0) {dim=[1], keepdim=false}
    %2: f32[B] = prim.add(%1, 1e-05)
    %3: f32[B] = prim.rsqrt(%2)
    yield %3
  }
  %v: f32[8, B] strides=[1, 8] = aten.t(&%x)
  return %y, &%v
})"),
            Messages{});
}

TEST(Verify, NamesAreUnique) {
  Small s;
  s.op->result()->name = "x";
  EXPECT_EQ(errors(s.graph), Messages{"'%x' is defined twice"});
  s.op->result()->name = "";
  EXPECT_EQ(errors(s.graph), Messages{"a value has no name"});
}

TEST(Verify, DefinitionsComeBeforeUses) {
  Small s;
  Op *second = s.graph.insertBefore(s.end, Op::Kind::Call, "t::op", {Operand::of(s.op->result())}, {},
                                    {{"z", kTensor}});
  s.graph.moveBefore(second, s.op);
  EXPECT_EQ(errors(s.graph), Messages{"'t::op' op uses '%y', which is not defined before it"});
}

TEST(Verify, TheGraphEndsWithAReturn) {
  Small s;
  s.graph.erase(s.end);
  EXPECT_EQ(errors(s.graph), Messages{"graph '@main' has no return at its end"});
}

TEST(Verify, RegionsAndNothingElseHaveBodies) {
  Small s;
  s.graph.makeBody(s.op);
  s.graph.insertBefore(s.end, Op::Kind::Group, "k", {});
  EXPECT_EQ(errors(s.graph), (Messages{"'t::op' op has a body", "'group' op has no body"}));
}

TEST(Verify, AmbientStatesExist) {
  Small s;
  s.op->state = 7;
  EXPECT_EQ(errors(s.graph), Messages{"'t::op' op has ambient state 7, but the graph has 1"});
}

TEST(Verify, SymsAreDeclaredOnceInCapitals) {
  Small s;
  s.graph.syms = {{"B", {}}, {"B", {}}, {"b", {4, 2}}};
  EXPECT_EQ(errors(s.graph),
            (Messages{"sym 'B' is declared twice", "sym 'b' does not start with a capital letter",
                      "sym 'b' has the empty range [4, 2]"}));
}

TEST(Verify, SymsUsedAreDeclared) {
  Small s;
  s.x->type.sizes[0] = Dim::sym("B");
  s.op->setAttr("size", Attr::list({Attr::integer(Dim::sym("T"))}));
  EXPECT_EQ(errors(s.graph), (Messages{"a size uses sym 'B', which is not declared",
                                       "size uses sym 'T', which is not declared"}));
}

TEST(Verify, StridesAreThoseThatMustBeSaid) {
  Small s;
  s.x->type.strides = std::vector<Dim>{1};
  s.op->result()->type.strides = std::vector<Dim>{1, 1};
  EXPECT_EQ(errors(s.graph),
            (Messages{"'%x' has strides, but they are those of a contiguous tensor: leave them out",
                      "'%y' has 2 strides for 1 dims"}));
}

TEST(Verify, SizesStayWithin64Bits) {
  Small s;
  int64_t huge = int64_t{1} << 62;
  s.x->type.sizes = {huge, huge, huge};
  s.x->type.strides = std::vector<Dim>{1, 1, 1};
  std::vector<std::string> found = errors(s.graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("'%x' has sizes out of bounds: ")) << found[0];
}

TEST(Verify, ScalarsHaveNoSizes) {
  Small s;
  s.op->result()->type.kind = Type::Kind::Int;
  EXPECT_EQ(errors(s.graph), Messages{"'%y' is a scalar, but has sizes or strides"});
}

TEST(Verify, ContentsBelongToConstants) {
  Small s;
  s.x->content = Attr::integer(1);
  s.op->result()->content = Attr::integer(1);
  s.graph.declare(Value::Kind::HostVal, "n", Type::scalar(Type::Kind::Int));
  s.graph.declare(Value::Kind::Const, "k", kTensor);
  EXPECT_EQ(errors(s.graph),
            (Messages{"'%x' is a input and has a content", "'%n' is a hostval without a content",
                      "'%k' is a const, expected either a content or the hash of a file",
                      "'%y' is a result and has a content"}));
}

TEST(Verify, GuardsSpeakOfDeclarations) {
  Small s;
  Guard guard;
  guard.kind = "keys";
  guard.operands = {Operand::of(s.op->result())};
  guard.expected = Attr::string("CPU");
  s.graph.guards = {guard};
  EXPECT_EQ(errors(s.graph), Messages{"guard #0 'keys' speaks of '%y', which is no declaration"});
}

TEST(Verify, CallsHaveANamespaceAndEachAttributeOnce) {
  Small s;
  s.op->name = "relu";
  s.op->attrs = {{"p", Attr::integer(1)}, {"p", Attr::integer(1)}};
  EXPECT_EQ(errors(s.graph),
            (Messages{"'relu' op has no namespace: operators are called aten.x, prim.x or ns::x",
                      "'relu' op has attribute 'p' twice"}));
}

TEST(Verify, KnownOperatorsFollowTheirSchema) {
  FakeCatalog catalog;
  catalog.add("t::lin", {tensorArg("input"), tensorArg("bias", true), attrArg("p", "float"),
                         attrArg("q", "int", Attr::integer(1))});
  catalog.add("t::cat", {listArg("tensors")});
  EXPECT_EQ(errors(inBody("%y: f32[2] = t::lin(%x, none) {p=0.5}"), &catalog), Messages{});
  EXPECT_EQ(errors(inBody("%y: f32[2] = t::lin(%x) {p=0.5}"), &catalog),
            Messages{"'t::lin' op has 1 operands, expected 2 (none where one is missing)"});
  EXPECT_EQ(errors(inBody("%y: f32[2] = t::lin(none, [%x]) {p=0.5}"), &catalog),
            (Messages{"'t::lin' op operand #0 'input' is none, expected Tensor",
                      "'t::lin' op operand #1 'bias' is a list, expected Tensor?"}));
  EXPECT_EQ(errors(inBody("%y: f32[2] = t::lin(%x, none) {r=2}"), &catalog),
            (Messages{"'t::lin' op has no attribute 'r'", "'t::lin' op misses attribute 'p' of type float"}));
  EXPECT_EQ(errors(inBody("%y: f32[2] = t::cat(%x)"), &catalog),
            Messages{"'t::cat' op operand #0 'tensors' is a value, expected Tensor[]"});
  EXPECT_EQ(errors(inBody("%y: f32[2], %z: f32[2] = t::cat([%x])"), &catalog),
            Messages{"'t::cat' op has 2 results, expected 1"});
}

TEST(Verify, ListResultsAreAnyNumberAndWrittenArgumentsNone) {
  FakeCatalog catalog;
  catalog.add("t::chunk", {tensorArg("self")}).returns[0].isTensorList = true;
  catalog.add("t::add_", {writtenArg("self")}).returns[0].aliasSet = "a";
  EXPECT_EQ(errors(inBody("%y, %z: f32[1] = t::chunk(&%x)"), &catalog), Messages{});
  EXPECT_EQ(errors(inBody("t::add_(&mut %x)"), &catalog), Messages{});
  EXPECT_EQ(errors(inBody("%y: f32[2] = t::add_(&mut %x)"), &catalog),
            Messages{"'t::add_' op has 1 results, expected 0"});
}

TEST(Verify, WritesOfTheSchemaAreMarkedAndNoOthers) {
  FakeCatalog catalog;
  catalog.add("t::add_", {writtenArg("self"), tensorArg("other")}).returns.clear();
  EXPECT_EQ(errors(inBody("t::add_(%x, &mut %x)"), &catalog),
            (Messages{"'t::add_' op writes operand #0, which has no &mut",
                      "'t::add_' op does not write operand #1, which has &mut"}));
  ArgInfo list = listArg("self");
  list.written = true;
  catalog.add("t::foreach_", {list}).returns.clear();
  EXPECT_EQ(errors(inBody("t::foreach_([&mut %x, %x])"), &catalog),
            Messages{"'t::foreach_' op writes operand #0, which has no &mut"});
}

TEST(Verify, CompositesAreGoneAfterCapture) {
  FakeCatalog catalog;
  catalog.add("t::comp", {tensorArg("self")}).composite = true;
  std::string text = inBody("%y: f32[2] = t::comp(%x)");
  EXPECT_EQ(errors(text, &catalog), Messages{});
  text.replace(0, 8, "graph @g stage=lowered");
  EXPECT_EQ(errors(text, &catalog),
            Messages{"'t::comp' op is a composite operator, which stage lowered does not allow"});
}

TEST(Verify, ErrorsStandWhereTheTextIsWrong) {
  std::string text = inBody("%y: f32[2] = t::op(%x, 0.5)");
  Diagnostics diagnostics("g.gir", text);
  auto graphs = parseGraphs(diagnostics);
  ASSERT_TRUE(graphs);
  verify(graphs->at(0), diagnostics);
  EXPECT_EQ(diagnostics.render(),
            "g.gir:3:26: error: 't::op' op operand #1 is a literal: scalars of operators are attributes\n"
            "  %y: f32[2] = t::op(%x, 0.5)\n"
            "                         ^~~\n");
}

TEST(Verify, BrokenGraphsMadeInMemoryAreInternalErrors) {
  Small s;
  EXPECT_NO_THROW(verifyOrThrow(s.graph));
  s.op->name = "relu";
  try {
    verifyOrThrow(s.graph);
    FAIL();
  } catch (const graphopt::Error &error) {
    EXPECT_EQ(error.kind(), graphopt::Error::Kind::Internal);
    std::string text = error.what();
    EXPECT_NE(text.find("'relu' op has no namespace"), std::string::npos) << text;
    EXPECT_NE(text.find("input %x: f32[2]"), std::string::npos) << text;
  }
}
