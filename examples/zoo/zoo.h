// The zoo: well-known networks as LibTorch modules, with the parameter names of the public models, so that
// weights carry over by name. Each is a header with its configurations and a source file to read; this is the
// table of them, for callers that pick one by name.
//
//   zoo::Gpt2 model(zoo::kGpt2Tiny);                        // a module, by its class
//   auto fast = graphopt::compile(model);
//
//   const zoo::Row *row = zoo::find("gpt2-tiny");           // or by its name
//   torch::Tensor loss = zoo::loss(fast(zoo::draw(row->inputs[0])), zoo::draw(row->targets));
//
//   $ graphopt verify zoo:gpt2-tiny                         # or in the tool
#pragma once
#include <graphopt/plugin.h>

#include <span>
#include <string_view>
#include <vector>

namespace zoo {

/// A random tensor: floats normal(0, 1), integers from [0, below).
struct Sample {
  at::ScalarType dtype;
  std::vector<int64_t> sizes; ///< the batch first
  int64_t below = 0;
};
at::Tensor draw(const Sample &sample);

struct Row {
  const char *name, *help;
  graphopt::plugin::Instance *(*make)();
  std::vector<Sample> inputs; ///< what a call is given if nothing else is said
  Sample targets;             ///< what loss() holds the logits against
};
const std::vector<Row> &rows();
/// nullptr when there is none of that name.
const Row *find(std::string_view name);

/// Cross entropy of logits [..., classes] with class numbers i64[...]; a target of -100 does not count.
at::Tensor loss(const at::Tensor &logits, const at::Tensor &targets);

/// The rows as the tool takes them: graphopt::toolMain.
std::span<const graphopt::plugin::Descriptor> descriptors();

} // namespace zoo
