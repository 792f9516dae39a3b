// The text of small recordings: operands, attributes, marks, names, borders.
#include "recording.h"

#include "ir/print.h"

#include <ATen/Functions.h>

namespace graphopt::capture {
namespace {

TEST(Record, WritesOperatorsAsCalled) {
  Capture capture = recordBody([](const Tensors &x) { return at::relu(at::add(x[0], x[1], 2)); },
                               {ramp({2, 3}), ramp({3})});
  EXPECT_EQ(bodyOf(capture), "%add: f32[2, 3] = aten.add.Tensor(%x0, %x1) {alpha=2}\n"
                             "%relu: f32[2, 3] = aten.relu(%add)\n"
                             "return %relu\n");
  EXPECT_EQ(capture.stats.operators, 2u);
  EXPECT_EQ(capture.stats.borders, 0u);
}

TEST(Record, PrintsTheWholeGraph) {
  Capture capture = recordBody([](const Tensors &x) { return x[0].t(); }, {ramp({2, 3})});
  EXPECT_EQ(ir::print(capture.graph), "graph @main version=1 stage=captured form=raw device=cpu "
                                      "deterministic=off matmul=highest {\n"
                                      "  input %x: f32[2, 3]\n"
                                      "\n"
                                      "  guard #0 meta(%x) == f32[2, 3]\n"
                                      "  guard #1 grad_mode == on\n"
                                      "  guard #2 inference_mode == off\n"
                                      "  guard #3 autocast(cpu) == off\n"
                                      "  guard #4 default_dtype == f32\n"
                                      "  guard #5 deterministic == off\n"
                                      "  guard #6 matmul_precision == highest\n"
                                      "\n"
                                      "  %t: f32[3, 2] strides=[1, 3] = aten.t(&%x)\n"
                                      "  return &%t\n"
                                      "}\n");
}

} // namespace
} // namespace graphopt::capture
