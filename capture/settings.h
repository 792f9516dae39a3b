// The process's switches that decide what operators compute: read, compared and set as one.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace graphopt::capture {

/// One value of all switches. Equal settings have equal numbers for the life of the process.
using SettingsId = uint32_t;

/// The switches now. A few nanoseconds while nothing changes.
class SettingsProbe {
public:
  SettingsProbe();
  SettingsId now() {
    if (isUnchanged()) [[likely]]
      return id_;
    return readAgain();
  }

  /// At the beginning of a call: looks at those as well that now() cannot see change (setFloat32Precision).
  void refresh();

private:
  bool isUnchanged() const;
  SettingsId readAgain();

  SettingsId id_ = 0;
  int threads_ = 0, denormals_ = 0;
  c10::ScalarType dtype_ = c10::ScalarType::Undefined;
  uint64_t precisions_ = 0;
  std::vector<unsigned char> bytes_; // of at::Context
};

/// All switches as they are now, as one word: equal words, equal switches, in every process.
std::string switchesText();

/// Sets the switches as they were under `id`, and back at the end. Costs nothing when they are so already.
class SettingsOf {
public:
  SettingsOf(SettingsId id, SettingsId now);
  ~SettingsOf();
  SettingsOf(const SettingsOf &) = delete;
  SettingsOf &operator=(const SettingsOf &) = delete;

private:
  SettingsId wanted_, before_;
};

} // namespace graphopt::capture
