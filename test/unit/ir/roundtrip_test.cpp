// Printing and parsing are inverse: canonical texts come back byte for byte, and every production is in one
// of them.
#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/print.h"

#include <gtest/gtest.h>

namespace graphopt::ir {
namespace {

/// Parses a text of one graph or of several, and prints it.
std::string reprinted(const std::string &text) {
  Diagnostics diagnostics("t.gir", text);
  auto graphs = parseGraphs(diagnostics);
  if (!graphs)
    return diagnostics.render();
  std::string out;
  for (const Graph &graph : *graphs)
    out += print(graph);
  return out;
}

constexpr const char *kCaptured =
    R"(graph @net version=1 stage=captured form=raw device=cpu deterministic=off matmul=highest {
  sym U in [0, inf]
  sym B in [-inf, 512]

  input %x: f32[2, 16] grad
  param %fc.weight: f32[4, 16]
  buffer %bn.running_mean: f32[4] device=cuda:0 wrapped conj neg grad
  outside %h0: f32[2, 4] strides=[1, 2]
  hostval %n0: int = 3
  hostval %z: i64[] = -7
  const %k: i64[3] = [1, 2, 3]
  const %kk: i64[2, 2] = [ [1, 2], [3, 4] ]
  const %big: f32[512] = file "9f3c0a"
  input %"odd \"name\"": bool[]

  guard #0 meta(%x) == f32[2, 16]
  guard #1 grad_mode == off
  guard #4 argument("n") == 3
  guard #5 size(%x, 0) in [2, 512]
  guard #6 size(%x, 1) <= U + 1
  guard #7 pairs([%x, none]) != [ [1, 2], [] ]

  scope "fc" {amp=bf16, grad=off}
  %n: int = aten.size.int(%x) {dim=0}
  %a, %b: f32[2, 8] = aten.chunk(&%x) {chunks=2, dim=1}
  scope ~"fc"
  %c: f32[2, 16] = aten.cat([%a, %b]) {dim=1}
  %t: f32[16, 4] strides=[1, 16] = aten.t(&%fc.weight)
  scope ""
  aten.add_.Tensor(&mut %h0, %h0) {alpha=inf}
  %nz: i64[U, 2] = aten.nonzero(%c)
  %p: f32[2], %q: i64[2], %r: float = mylib::foo.overload(none, [%a, none, &mut %b], [], 0.5, "s")
  "no namespace"(%p) {"odd key"=1, mode="a\"b", nan=nan, list=[], mixed=[ 1.0, [true, none] ]}
  aten.x(%p) {dtype=bf16, layout=channels_last, device=cuda:0, w=word "Odd", c=complex(1.0, -2.0), g=opaque "Generator"}
  border #0 read %nz reason="nonzero" at="fc" seq=7
  border #1 print
  border #2 read %a, %b
  return &%a, %c
}
)";

constexpr const char *kRegions = R"(graph @net version=1 stage=fused device=cpu {
  sym B in [0, inf]

  input %h: f32[B, 16]
  buffer %h0: f32[B, 16]

  %y: f32[B, 16] = group "k0" rows (%h) {
    %0: f32[B, 16] = prim.mul(%h, 0.5)
    scope "inner"
    %1: f32[B, 16] = prim.add(%0, 1e-05)
    yield %1
  }
  %h0.1: f32[B, 16] = update (%h0, %y) {
    %c: f32[B, 16] = aten.clone(%h0)
    aten.add_.Tensor(&mut %c, %y)
    yield %c
  }
  group "k1" (%y) with {tile=64} {
    group "k2" cols () {
      yield
    }
    yield
  }
  writeback %h0 <- %h0.1
  return
}
)";

TEST(RoundTrip, CapturedGraphWithEverything) { EXPECT_EQ(reprinted(kCaptured), kCaptured); }
TEST(RoundTrip, Regions) { EXPECT_EQ(reprinted(kRegions), kRegions); }

} // namespace
} // namespace graphopt::ir
