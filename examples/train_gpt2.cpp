// Train a compiled model with an ordinary loop: a small GPT-2 of the zoo learns to count. Only the call of
// the model changes; loss, backward, clipping and the optimizer are LibTorch's.
#include "zoo/gpt2.h"
#include "zoo/zoo.h"

#include <graphopt/graphopt.h>

#include <iostream>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

/// Texts of 32 tokens, each one more than the last, from random beginnings.
torch::Tensor countingTexts(int64_t batch) {
  return (torch::randint(500, {batch, 1}, torch::kLong) + torch::arange(33)).remainder(500);
}

int main() {
  torch::manual_seed(1);
  zoo::Gpt2 model(zoo::kGpt2Tiny);
  auto fast = graphopt::compile(model);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(2e-3));
  float first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const torch::Tensor texts = countingTexts(8);
    const torch::Tensor logits = fast(texts.slice(1, 0, 32));
    const torch::Tensor loss = zoo::loss(logits, texts.slice(1, 1)); // the next token
    optimizer.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    last = loss.item<float>();
    first = step == 0 ? last : first;
    if (step % 10 == 0)
      std::cout << "step " << step << ": loss " << last << '\n';
  }
  std::cout << "loss " << last << '\n' << fast.explain();
  return last < first / 2 ? 0 : 1;
}
