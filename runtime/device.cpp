// libtorch_cuda registers its kernels when it is loaded, so loading it is all there is to do. Not linking it
// keeps graphopt usable, and quick to start, where there is no GPU.
#include "runtime/device.h"

#include "graphopt/error.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <mutex>

namespace graphopt::runtime {
namespace {

/// The folder that libtorch_cpu was loaded from; empty when the loader does not say.
std::string torchFolder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void *>(&at::globalContext), &info) || !info.dli_fname)
    return "";
  std::string path = info.dli_fname;
  auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// Empty when the library is loaded, else the loader's words. LibTorch's CUDA hooks are not asked first: the
/// first question fixes their answer for the process.
std::string loadCuda() {
  std::string path = torchFolder() + "libtorch_cuda.so";
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return "";
  const char *error = dlerror();
  return error ? error : path + " cannot be loaded";
}

void requireCuda(const ir::Device &device) {
  static std::once_flag once;
  static std::string failure;
  std::call_once(once, [] { failure = loadCuda(); });
  if (!failure.empty())
    userError(fmt::format("device {} needs a LibTorch built for CUDA: {}", toString(device), failure));
  const at::CUDAHooksInterface &hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCUDART())
    userError(fmt::format(
        "device {} was asked for too late: the process used LibTorch's CUDA state before its CUDA library "
        "was loaded; ask for the device first",
        toString(device)));
  int count = hooks.getNumGPUs();
  if (count == 0)
    userError(fmt::format("device {} was asked for, and this machine has no CUDA GPU that LibTorch can use",
                          toString(device)));
  if (device.index >= count)
    userError(fmt::format("device {} was asked for, and this machine has {} (cuda:0 to cuda:{})",
                          toString(device), count, count - 1));
}

} // namespace

c10::Device requireDevice(const ir::Device &device) {
  if (device.type == "cuda")
    requireCuda(device);
  else if (device.type != "cpu" && device.type != "meta")
    userError(fmt::format("device {} is not supported: use cpu or cuda", toString(device)));
  return c10::Device(toString(device));
}

} // namespace graphopt::runtime
