// A boxed fallback put on a dispatcher key, once and for the life of the process.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

namespace graphopt::capture {

/// Registration rebuilds dispatch tables. To be leaked: unregistering at exit would rebuild tables that other
/// libraries have torn down.
struct Fallback {
  Fallback(c10::DispatchKey key, c10::KernelFunction kernel, const char *name) {
    try {
      handle.emplace(c10::Dispatcher::singleton().registerFallback(key, std::move(kernel), name));
    } catch (const c10::Error &thrown) {
      error = thrown.what_without_backtrace();
    }
  }
  std::optional<c10::RegistrationHandleRAII> handle;
  std::string error; ///< why it is not in place; empty when it is
};

} // namespace graphopt::capture
