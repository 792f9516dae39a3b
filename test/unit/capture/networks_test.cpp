// LibTorch modules: which operators the user's code calls, under which scopes and names.
#include "modules.h"
#include "recording.h"

#include <ATen/Functions.h>

namespace graphopt::capture {
namespace {

Capture recordCase(ModuleCase module) { return recordChecked(*module.program, module.args); }

TEST(Networks, Mlp) {
  Capture capture = recordCase(mlp());
  EXPECT_EQ(bodyOf(capture), "scope \"fc1\"\n"
                             "%t: f32[4, 8] strides=[1, 4] = aten.t(&%fc1.weight)\n"
                             "%fc1: f32[3, 8] = aten.addmm(%fc1.bias, %x, %t)\n"
                             "scope ~\"fc1\"\n"
                             "%relu: f32[3, 8] = aten.relu(%fc1)\n"
                             "scope \"fc2\"\n"
                             "%t.1: f32[8, 2] strides=[1, 8] = aten.t(&%fc2.weight)\n"
                             "%fc2: f32[3, 2] = aten.addmm(%fc2.bias, %relu, %t.1)\n"
                             "return %fc2\n");
}

TEST(Networks, ScopesAreExactUnderGuards) {
  std::string body = bodyOf(recordCase(scoped()));
  EXPECT_NE(body.find("scope \"net.head\"\n"), std::string::npos) << body;
  EXPECT_NE(body.find("%head: f32[3, 8] = aten.relu("), std::string::npos) << body;
  EXPECT_NE(body.find("%net: f32[3, 2] = aten.addmm("), std::string::npos) << body;
}

TEST(Networks, BatchNormWritesItsStatistics) {
  Capture capture = recordCase(convNet(true));
  std::string body = bodyOf(capture);
  EXPECT_NE(body.find("aten.add_.Scalar(&mut %bn.num_batches_tracked) {other=1}"), std::string::npos) << body;
  EXPECT_NE(
      body.find("aten.batch_norm(%conv, %bn.weight, %bn.bias, &mut %bn.running_mean, &mut %bn.running_var) "
                "{training=true"),
      std::string::npos)
      << body;
  std::string eval = bodyOf(recordCase(convNet(false)));
  EXPECT_EQ(eval.find("&mut"), std::string::npos) << eval;
}

TEST(Networks, TransformerBlock) {
  Capture capture = recordCase(transformerBlock());
  EXPECT_EQ(bordersOf(capture), "");
  std::string operators = operatorsOf(capture);
  for (const char *op :
       {"aten.layer_norm\n", "aten.chunk\n", "aten.scaled_dot_product_attention\n", "aten.gelu\n"})
    EXPECT_NE(operators.find(op), std::string::npos) << op << operators;
}

TEST(Networks, MultiheadAttentionReadsTheHost) {
  Capture capture = recordCase(multiheadAttention());
  EXPECT_EQ(bordersOf(capture), "equal\nequal\n");
}

TEST(Networks, Lstm) {
  Capture capture = recordCase(lstm());
  EXPECT_EQ(bordersOf(capture), "");
  EXPECT_NE(bodyOf(capture).find("= aten.lstm.input(%x, [%zeros, %zeros.1], [%weight_ih_l0, "),
            std::string::npos)
      << bodyOf(capture);
}

TEST(Networks, GruCellUnrolled) {
  Capture capture = recordCase(gruLoop(3));
  std::string operators = operatorsOf(capture);
  size_t cells = 0;
  for (size_t at = operators.find("aten.gru_cell\n"); at != operators.npos;
       at = operators.find("aten.gru_cell\n", at + 1))
    ++cells;
  EXPECT_EQ(cells, 3u);
  EXPECT_EQ(bordersOf(capture), "");
}

TEST(Networks, ResultIsWhatTheProgramReturned) {
  ModuleCase module = mlp();
  Capture capture = recordChecked(*module.program, module.args);
  at::Tensor eager = module.program->call(module.args).toTensor();
  EXPECT_TRUE(at::equal(capture.result.toTensor(), eager));
}

} // namespace
} // namespace graphopt::capture
