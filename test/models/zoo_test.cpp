// The networks of examples/zoo, small: compiled calls and training steps against eager ones, bit for bit.
#include "zoo/bert.h"
#include "zoo/gpt2.h"
#include "zoo/lstm_lm.h"
#include "zoo/mlp.h"
#include "zoo/resnet.h"
#include "zoo/vit.h"
#include "zoo/zoo.h"

#include <graphopt/graphopt.h>

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cstring>
#include <functional>
#include <set>

namespace {

using torch::Tensor;

/// A network as it is, or compiled.
struct Network {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensor(const Tensor &)> call;
  std::function<graphopt::Explanation()> explain; ///< of the compiled one
};

template <class Holder, const auto &config> Network make(bool compiled) {
  torch::manual_seed(7); // the same weights each time
  Holder module(config);
  if (!compiled)
    return {module.ptr(), [module](const Tensor &x) mutable { return module(x); }, {}};
  auto fast = graphopt::compile(module);
  return {module.ptr(), [fast](const Tensor &x) { return fast(x); }, [fast] { return fast.explain(); }};
}

struct Case {
  const char *row; ///< of the zoo's table, for inputs and targets
  Network (*make)(bool compiled);
  uint64_t compiledRuns = 17; ///< of 20 training steps
};
void PrintTo(const Case &test, std::ostream *out) { *out << test.row; } // NOLINT: GoogleTest's name

const Case kCases[] = {
    {"mlp", make<zoo::Mlp, zoo::kMlp>},
    {"resnet10", make<zoo::ResNet, zoo::kResNet10>},
    {"resnext14", make<zoo::ResNet, zoo::kResNeXt14>},
    {"vit-tiny", make<zoo::Vit, zoo::kVitTiny>},
    {"gpt2-tiny", make<zoo::Gpt2, zoo::kGpt2Tiny>},
    {"bert-tiny", make<zoo::Bert, zoo::kBertTiny>},
    {"bert-classifier-tiny", make<zoo::BertClassifier, zoo::kBertTiny>},
    {"lstm-lm-tiny", make<zoo::LstmLm, zoo::kLstmLmTiny>},
};

bool sameBits(const Tensor &a, const Tensor &b) {
  if (!a.defined() || !b.defined())
    return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.strides() != b.strides() || a.dtype() != b.dtype())
    return false;
  const Tensor left = a.detach().contiguous(), right = b.detach().contiguous();
  return std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

/// The first parameter, gradient or buffer that differs; empty when none does.
std::string differenceOf(const torch::nn::Module &a, const torch::nn::Module &b) {
  const auto parametersOfA = a.named_parameters(), parametersOfB = b.named_parameters();
  for (const auto &item : parametersOfA) {
    const Tensor &other = parametersOfB[item.key()];
    if (!sameBits(item.value().grad(), other.grad()))
      return "gradient of " + item.key();
    if (!sameBits(item.value(), other))
      return item.key();
  }
  const auto buffersOfA = a.named_buffers(), buffersOfB = b.named_buffers();
  for (const auto &item : buffersOfA)
    if (!sameBits(item.value(), buffersOfB[item.key()]))
      return item.key();
  return "";
}

/// A region of autocast in bf16, when it is asked for.
class Region {
public:
  explicit Region(bool isOn) : isOn_(isOn) {
    if (!isOn_)
      return;
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~Region() {
    if (!isOn_)
      return;
    at::autocast::set_autocast_enabled(at::kCPU, false);
    if (at::autocast::decrement_nesting() == 0)
      at::autocast::clear_cache();
  }
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

private:
  const bool isOn_;
};

class Zoo : public testing::TestWithParam<Case> {
protected:
  void SetUp() override { at::set_num_threads(1); }
  const zoo::Row &row_ = *zoo::find(GetParam().row);
  Network eager_ = GetParam().make(false), compiled_ = GetParam().make(true);

  void train(bool autocast);
};

TEST_P(Zoo, InferenceEqualsEager) {
  const torch::NoGradGuard noGrad;
  eager_.module->eval();
  compiled_.module->eval();
  for (int i = 0; i < 4; ++i) {
    const Tensor input = zoo::draw(row_.inputs.at(0));
    EXPECT_TRUE(sameBits(eager_.call(input), compiled_.call(input))) << "call " << i;
  }
  const graphopt::Explanation explanation = compiled_.explain();
  EXPECT_EQ(explanation.shadow.shadowedCalls, 3u) << explanation;
  EXPECT_EQ(explanation.shadow.borders, 0u) << explanation;
}

/// One step of training, which leaves its gradients. The seed decides what dropout drops.
std::pair<Tensor, Tensor> step(Network &network, torch::optim::SGD &optimizer, const Tensor &input,
                               const Tensor &targets, int seed, bool autocast) {
  torch::manual_seed(seed);
  optimizer.zero_grad();
  Tensor logits, loss;
  {
    const Region region(autocast);
    logits = network.call(input);
    loss = zoo::loss(logits, targets);
  }
  loss.backward();
  optimizer.step();
  return {logits, loss};
}

void Zoo::train(bool autocast) {
  const torch::optim::SGDOptions options = torch::optim::SGDOptions(0.01).momentum(0.9);
  torch::optim::SGD eagerOptimizer(eager_.module->parameters(), options);
  torch::optim::SGD optimizer(compiled_.module->parameters(), options);
  const Tensor input = zoo::draw(row_.inputs.at(0)), targets = zoo::draw(row_.targets);
  std::vector<double> losses;
  for (int i = 0; i < 20; ++i) {
    const auto [wantedLogits, wantedLoss] = step(eager_, eagerOptimizer, input, targets, i, autocast);
    const auto [logits, loss] = step(compiled_, optimizer, input, targets, i, autocast);
    ASSERT_TRUE(sameBits(wantedLogits, logits)) << "step " << i;
    ASSERT_TRUE(sameBits(wantedLoss, loss)) << "step " << i;
    ASSERT_EQ(differenceOf(*eager_.module, *compiled_.module), "") << "step " << i;
    losses.push_back(loss.item<double>());
  }
  EXPECT_LT(losses.back(), losses.front()); // it learns
  const graphopt::Explanation explanation = compiled_.explain();
  EXPECT_EQ(explanation.shadow.shadowedCalls, 19u) << explanation;
  EXPECT_EQ(explanation.compiledRuns, GetParam().compiledRuns) << explanation;
}

TEST_P(Zoo, TrainingEqualsEager) { train(false); }
TEST_P(Zoo, TrainingUnderAutocastEqualsEager) { train(true); }

INSTANTIATE_TEST_SUITE_P(Small, Zoo, testing::ValuesIn(kCases), [](const auto &info) {
  std::string name = info.param.row; // GoogleTest wants letters and digits
  std::erase(name, '-');
  return name;
});

TEST(ZooTable, HasEachNameOnce) {
  std::set<std::string> names;
  for (const zoo::Row &row : zoo::rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(zoo::find(row.name), &row);
  }
  EXPECT_EQ(zoo::find("no such network"), nullptr);
  EXPECT_EQ(zoo::descriptors().size(), names.size());
}

} // namespace
