// Loading models. A copy is made by loading again: cloning tensors would lose strides, sharing and what
// tensors alias.
#include "tools/model.h"

#include "tools/graph_program.h"
#include "tools/zoo_models.h"

#include "runtime/device.h"

#include <graphopt/error.h>

#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <filesystem>

namespace graphopt::tools {

void seedGenerators(uint64_t seed) {
  at::manual_seed(seed); // CUDA's too, once libtorch_cuda is there
}

std::vector<at::Tensor> tensorsOf(const c10::IValue &value) {
  std::vector<at::Tensor> tensors;
  capture::flatten(value, tensors);
  return tensors;
}

c10::IValue Instance::call(uint64_t seed) const {
  seedGenerators(seed);
  return program->call(args);
}

capture::Capture Instance::record(uint64_t seed, bool dry) const {
  if (const auto *text = dynamic_cast<const GraphProgram *>(program.get()))
    return text->capture(args);
  seedGenerators(seed);
  return capture::record(*program, args, {.graphName = program->name(), .dry = dry});
}

std::vector<at::Tensor> Instance::argumentTensors() const {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &arg : args)
    capture::flatten(arg, tensors);
  return tensors;
}

void ModelFlags::add(CLI::App &app) {
  app.add_option("MODEL", path_,
                 "a TorchScript .pt, a .gir text (- for standard input), a plugin .so, or zoo:NAME (see "
                 "graphopt --help)")
      ->required();
  app.add_option("--input", inputs_, "an argument, in order: f32[8,3], i64[2]:0..9, 2.5, @file.pt")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  app.add_option("--sym", syms_, "the value of a sym, for .gir texts and --input: B=32")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  app.add_option("--seed", seed_, "seed of random arguments and of the run (1)")->type_name("N");
  app.add_option("--device", device_, "cpu (the default) or cuda:0")->type_name("DEVICE");
  app.add_option("--consts", consts_, "the folder of a text's constants (the text's own folder)")
      ->type_name("DIR");
  app.add_flag("--train", train_, "put the model into training mode");
  app.add_flag("--grad", grad_, "keep grad mode on (inference without it is the default)");
}

bool ModelFlags::isText() const { return path_ == "-" || path_.ends_with(".gir"); }

std::unique_ptr<capture::Program> ModelFlags::load() const {
  if (isZooModel(path_))
    return capture::pluginProgram(zooModel(path_), path_);
  if (!std::filesystem::is_regular_file(path_))
    userError(fmt::format("cannot read '{}': {}", path_,
                          std::filesystem::exists(path_) ? "it is no regular file" : "no such file"));
  if (path_.ends_with(".so"))
    return capture::loadPlugin(path_);
  return capture::loadTorchScript(path_);
}

Instance ModelFlags::make() const {
  const std::optional<ir::Device> parsed = ir::parseDevice(device_);
  if (!parsed)
    userError(fmt::format("--device '{}' is no device: write cpu or cuda:0", device_));
  InputContext context{.device = runtime::requireDevice(*parsed), .seed = seed_, .syms = {}};
  for (const std::string &text : syms_)
    context.syms.push_back(parseSym(text));
  seedGenerators(seed_); // plugins may make random parameters
  Instance instance;
  if (isText()) {
    auto program = std::make_unique<GraphProgram>(path_, GraphProgram::Options{context, consts_});
    if (inputs_.empty())
      instance.args = program->randomArguments();
    instance.program = std::move(program);
  } else {
    instance.program = load();
    instance.program->train(train_);
    if (!context.device.is_cpu() && !instance.program->to(context.device))
      userError(fmt::format("'{}' cannot be moved to {}: it is a bare callable", path_, device_));
  }
  for (const std::string &spec : inputs_.empty() && isZooModel(path_) ? zooInputs(path_) : inputs_)
    for (c10::IValue &arg : makeArguments(spec, instance.args.size(), context))
      instance.args.push_back(std::move(arg));
  return instance;
}

GradScope::GradScope(const ModelFlags &flags) : before_(c10::GradMode::is_enabled()) {
  c10::GradMode::set_enabled(flags.keepsGrad());
}
GradScope::~GradScope() { c10::GradMode::set_enabled(before_); }

} // namespace graphopt::tools
