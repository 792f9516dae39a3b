// Units run through the interpreter: the same operators, states and attributes as the graph they come from.
#include "driver/lowering.h"

#include "capture/settings.h"
#include "runtime/catalog.h"
#include "runtime/interpret.h"

namespace graphopt::driver {
namespace {

std::vector<at::Tensor> runUnit(const ir::Graph &unit, const std::vector<at::Tensor> &inputs) {
  runtime::Environment environment;
  const std::vector<ir::Value *> declared = unit.declared(ir::Value::Kind::Input);
  for (size_t i = 0; i < declared.size(); ++i)
    environment[declared[i]->name] = inputs.at(i);
  return runtime::interpret(unit, environment);
}

} // namespace

Lowering::Lowering(std::filesystem::path folder, capture::ProberOptions options)
    : prober_(runUnit, options), store_(std::move(folder), capture::switchesText()),
      book_(&prober_, &runtime::dispatcherCatalog(), &store_) {}

} // namespace graphopt::driver
