// graphopt run: a model through its plan, and what came out.
#include "tools/command.h"
#include "tools/files.h"
#include "tools/session.h"
#include "tools/tensor_file.h"

#include "ir/type.h"

#include <fmt/format.h>

#include <memory>

namespace graphopt::tools {
namespace {

struct RunOptions {
  ModelFlags model;
  PassFlags passes;
  std::string save, output = "-";
  bool eager = false;
};

double number(const at::Tensor &tensor) { return tensor.item<double>(); }

/// "out0: f32[8, 4] sum=1.5 min=-2 max=3": enough to see at a glance whether two runs agree.
std::string summary(size_t index, const at::Tensor &tensor) {
  if (!tensor.defined())
    return fmt::format("out{}: none\n", index);
  const std::string head = fmt::format("out{}: {}", index, ir::toString(capture::typeOf(tensor)));
  if (tensor.numel() == 0 || tensor.layout() != c10::kStrided)
    return head + "\n";
  const at::Tensor flat = tensor.detach().cpu().resolve_conj().resolve_neg();
  const at::Tensor real = flat.is_complex() ? flat.abs().to(at::kDouble) : flat.to(at::kDouble);
  return fmt::format("{} sum={:.9g} min={:.9g} max={:.9g}\n", head, number(real.sum()), number(real.min()),
                     number(real.max()));
}

c10::IValue runOnce(const RunOptions &options) {
  Instance instance = options.model.make();
  if (options.eager)
    return instance.call(options.model.seed());
  Session session(std::move(instance), options.model, options.passes);
  session.undoRecording();
  return session.run(options.model.seed());
}

int runRun(const RunOptions &options) {
  const GradScope grad(options.model);
  const std::vector<at::Tensor> tensors = tensorsOf(runOnce(options));
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i)
    text += summary(i, tensors[i]);
  if (!options.save.empty())
    saveTensors(tensors, options.save);
  writeText(options.output, text);
  return 0;
}

} // namespace

Run runCommand(CLI::App &app) {
  auto options = std::make_shared<RunOptions>();
  options->model.add(app);
  app.add_flag("--eager", options->eager,
               "run the program itself (a .gir: the interpreter) instead of the plan");
  app.add_option("--save", options->save, "write the results as a list of tensors")->type_name("FILE");
  app.add_option("-o", options->output, "write the summary here instead of standard output")
      ->type_name("FILE");
  options->passes.addPassesFlag(app);
  options->passes.addManagerFlags(app);
  return [options] { return runRun(*options); };
}

} // namespace graphopt::tools
