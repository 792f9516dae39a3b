// TorchScript archives are tried first: they are zip files like torch.save's, told apart by what is in them.
#include "tools/tensor_file.h"

#include "tools/files.h"

#include <graphopt/error.h>

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <filesystem>
#include <optional>
#include <sstream>

namespace graphopt::tools {
namespace {

struct Place {
  std::string file, prefix;
};

/// FILE or FILE:PREFIX; a file whose own name has a colon wins.
Place splitPlace(const std::string &text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text))
    return {text, "input"};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::optional<torch::jit::Module> tryArchive(const std::string &bytes) {
  try {
    std::istringstream in(bytes);
    return torch::jit::load(in, c10::kCPU);
  } catch (const std::exception &) {
    return std::nullopt; // some other kind of file
  }
}

std::vector<c10::IValue> buffersOf(const torch::jit::Module &module, const Place &place) {
  std::vector<c10::IValue> values;
  while (module.hasattr(fmt::format("{}{}", place.prefix, values.size())))
    values.push_back(module.attr(fmt::format("{}{}", place.prefix, values.size())));
  if (values.empty())
    userError(fmt::format("'{}' has no buffer '{}0'", place.file, place.prefix));
  return values;
}

std::vector<c10::IValue> pickled(const std::string &bytes, const std::string &file) {
  c10::IValue value;
  try {
    value = torch::jit::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
  } catch (const std::exception &) {
    userError(fmt::format("'{}' is neither a saved tensor nor a TorchScript archive", file));
  }
  if (value.isTuple())
    return value.toTupleRef().elements().vec();
  if (value.isList())
    return value.toListRef().vec();
  return {value};
}

} // namespace

std::vector<c10::IValue> loadArguments(const std::string &file, c10::Device device) {
  const Place place = splitPlace(file);
  const std::string bytes = readText(place.file);
  const std::optional<torch::jit::Module> module = tryArchive(bytes);
  std::vector<c10::IValue> values = module ? buffersOf(*module, place) : pickled(bytes, place.file);
  for (c10::IValue &value : values)
    if (value.isTensor())
      value = value.toTensor().to(device);
  return values;
}

void saveTensors(const std::vector<at::Tensor> &tensors, const std::string &file) {
  c10::List<at::Tensor> list;
  for (const at::Tensor &tensor : tensors)
    list.push_back(tensor.defined() ? tensor.detach().cpu() : at::Tensor());
  const std::vector<char> bytes = torch::jit::pickle_save(list);
  writeText(file, {bytes.data(), bytes.size()});
}

} // namespace graphopt::tools
