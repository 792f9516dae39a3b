// One file a constant. Only the size is checked on reading, not the hash that names the file.
#include "tools/const_files.h"

#include "tools/files.h"

#include "runtime/content.h"

#include <graphopt/error.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

namespace graphopt::tools {
namespace {

std::string pathOf(const ir::Value &value, const std::string &dir) {
  return (std::filesystem::path(dir) / (value.contentHash + ".bin")).string();
}

} // namespace

at::Tensor readConst(const ir::Value &value, const std::string &dir) {
  const std::string path = pathOf(value, dir);
  const std::string bytes = readText(path);
  at::Tensor tensor = at::empty(runtime::sizesOf(value.type, {}), value.type.dtype);
  if (bytes.size() != tensor.nbytes())
    userError(fmt::format("constant '%{}': '{}' has {} bytes, {} needs {}", value.name, path, bytes.size(),
                          ir::toString(value.type), tensor.nbytes()));
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

void writeConst(const ir::Value &value, const at::Tensor &tensor, const std::string &dir) {
  std::error_code code;
  std::filesystem::create_directories(dir, code);
  const at::Tensor dense = tensor.cpu().resolve_conj().resolve_neg().contiguous();
  writeText(pathOf(value, dir), {static_cast<const char *>(dense.const_data_ptr()), dense.nbytes()});
}

} // namespace graphopt::tools
