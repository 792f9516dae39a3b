// corpus-data models|ops DATA: does plain LibTorch give what the files say? Every model and operator case is
// run by the TorchScript interpreter and compared with the recorded outputs and gradients, without graphopt:
// when this fails, the data or the LibTorch at hand is at fault. Exits 1 when something differs.
#include <ATen/Parallel.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

namespace fs = std::filesystem;

namespace {

using Tensors = std::vector<at::Tensor>;

Tensors flatten(const c10::IValue &value) {
  if (value.isTensor())
    return {value.toTensor()};
  Tensors tensors;
  for (const c10::IValue &element : value.toTupleRef().elements())
    tensors.push_back(element.toTensor());
  return tensors;
}

Tensors call(torch::jit::Module module, const Tensors &inputs) {
  return flatten(module.forward({inputs.begin(), inputs.end()}));
}

struct Tolerance {
  double relative = 0, absolute = 0;
  bool shapeOnly = false;
};

bool isClose(const at::Tensor &got, const at::Tensor &want, const Tolerance &tolerance) {
  if (!got.defined() || got.sizes() != want.sizes() || got.dtype() != want.dtype())
    return false;
  return tolerance.shapeOnly || at::allclose(got.to(at::kDouble), want.to(at::kDouble), tolerance.relative,
                                             tolerance.absolute, /*equal_nan=*/true);
}

bool areClose(const Tensors &got, const Tensors &want, const Tolerance &tolerance) {
  return std::equal(got.begin(), got.end(), want.begin(), want.end(),
                    [&](const at::Tensor &a, const at::Tensor &b) { return isClose(a, b, tolerance); });
}

bool outputsAgree(const torch::jit::Module &item, const Tolerance &tolerance) {
  at::NoGradGuard noGrad;
  torch::manual_seed(item.attr("seed").toInt());
  Tensors got = call(item.attr("fn").toModule(), item.attr("inputs").toTensorVector());
  return areClose(got, item.attr("outputs").toTensorVector(), tolerance);
}

/// True where the case has no gradients.
bool gradientsAgree(const torch::jit::Module &item, Tolerance tolerance) {
  std::vector<int64_t> differentiated = item.attr("diff_inputs").toIntVector();
  if (differentiated.empty())
    return true;
  Tensors inputs = item.attr("inputs").toTensorVector(), leaves, roots;
  for (int64_t i : differentiated) {
    inputs[i] = inputs[i].detach().requires_grad_();
    leaves.push_back(inputs[i]);
  }
  torch::manual_seed(item.attr("seed").toInt());
  Tensors outputs = call(item.attr("fn").toModule(), inputs);
  for (int64_t i : item.attr("diff_outputs").toIntVector())
    roots.push_back(outputs[i]);
  Tensors got = torch::autograd::grad(roots, leaves, item.attr("cotangents").toTensorVector(), std::nullopt,
                                      /*create_graph=*/false, /*allow_unused=*/true);
  tolerance.relative = std::max(tolerance.relative, 1e-5);
  tolerance.absolute = std::max(tolerance.absolute, 1e-6);
  return areClose(got, item.attr("grads").toTensorVector(), tolerance);
}

struct Totals {
  size_t passed = 0, failed = 0;

  void add(const std::string &name, const std::function<std::string()> &trouble) {
    std::string what;
    try {
      what = trouble();
    } catch (const std::exception &error) {
      what = std::string(error.what()).substr(0, 200);
    }
    ++(what.empty() ? passed : failed);
    if (!what.empty())
      fmt::print("{}: {}\n", name, what);
  }
};

void checkOperator(const fs::path &path, Totals &totals) {
  // A run may write to inputs: the gradients take theirs from a file loaded anew.
  torch::jit::Module forward = torch::jit::load(path.string()), backward = torch::jit::load(path.string());
  for (const auto &item : forward.named_children())
    totals.add(path.stem().string() + " " + item.name, [&]() -> std::string {
      Tolerance tolerance{item.value.attr("rtol").toDouble(), item.value.attr("atol").toDouble(),
                          item.value.attr("shape_only").toBool()};
      if (!outputsAgree(item.value, tolerance))
        return "outputs differ";
      return gradientsAgree(backward.attr(item.name).toModule(), tolerance) ? "" : "gradients differ";
    });
}

Tensors buffersOf(const torch::jit::Module &io, const std::string &prefix) {
  Tensors tensors;
  for (int i = 0; io.hasattr(prefix + std::to_string(i)); ++i)
    tensors.push_back(io.attr(prefix + std::to_string(i)).toTensor());
  return tensors;
}

void checkModel(const fs::path &io, Totals &totals) {
  std::string stem = io.string().substr(0, io.string().size() - std::string(".io.pt").size());
  if (!fs::exists(stem + ".pt"))
    return;
  totals.add(fs::path(stem).filename().string(), [&] {
    at::NoGradGuard noGrad;
    torch::jit::Module record = torch::jit::load(io.string()), model = torch::jit::load(stem + ".pt");
    model.eval();
    bool agree = areClose(call(model, buffersOf(record, "input")), buffersOf(record, "output"), {1e-5, 1e-5});
    return std::string(agree ? "" : "outputs differ");
  });
}

} // namespace

int main(int argc, char **argv) {
  std::string what = argc == 3 ? argv[1] : "";
  if (what != "models" && what != "ops") {
    fmt::print(stderr, "usage: corpus-data models|ops DATA\n");
    return 2;
  }
  at::set_num_threads(1);
  torch::jit::setGraphExecutorOptimize(false);
  std::vector<fs::path> files;
  for (const auto &entry :
       fs::directory_iterator(what == "ops" ? fs::path(argv[2]) / "ops" : fs::path(argv[2])))
    if (entry.path().string().ends_with(what == "ops" ? ".pt" : ".io.pt"))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Totals totals;
  for (const fs::path &file : files)
    what == "ops" ? checkOperator(file, totals) : checkModel(file, totals);
  fmt::print("data: {} passed, {} failed\n", totals.passed, totals.failed);
  return totals.failed || !totals.passed ? 1 : 0;
}
