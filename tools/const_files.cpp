// One file a constant: its elements alone. What they mean (dtype, sizes, strides) is in the text, and so is
// the hash that says that it is the right file.
#include "tools/const_files.h"

#include "tools/files.h"

#include "ir/content_hash.h"
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

std::string constsDirOf(const std::string &text, const std::string &given) {
  if (!given.empty())
    return given;
  const std::string parent = std::filesystem::path(text).parent_path().string();
  return parent.empty() ? "." : parent;
}

at::Tensor readConst(const ir::Value &value, const std::string &dir) {
  const std::string path = pathOf(value, dir);
  const std::string bytes = readText(path);
  const std::vector<int64_t> sizes = runtime::sizesOf(value.type, {});
  at::Tensor tensor = at::empty(sizes, value.type.dtype);
  if (bytes.size() != tensor.nbytes())
    userError(fmt::format("constant '%{}': '{}' has {} bytes, {} needs {}", value.name, path, bytes.size(),
                          ir::toString(value.type), tensor.nbytes()));
  if (const std::string hash = ir::contentHash(value.type.dtype, sizes, bytes); hash != value.contentHash)
    userError(fmt::format("constant '%{}': the contents of '{}' have the hash {}, the text says {}; dump "
                          "the text and its constants again",
                          value.name, path, hash, value.contentHash));
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return runtime::inLayout(tensor, value.type);
}

void writeConst(const ir::Value &value, const at::Tensor &tensor, const std::string &dir) {
  std::error_code code;
  std::filesystem::create_directories(dir, code);
  const at::Tensor dense = tensor.cpu().resolve_conj().resolve_neg().contiguous();
  writeText(pathOf(value, dir), {static_cast<const char *>(dense.const_data_ptr()), dense.nbytes()});
}

} // namespace graphopt::tools
