// A file is written beside its place and renamed, so a reader sees the old one or the new one. Its name comes
// from the unit and the switches alone: a new build overwrites what an old one left.
#include "driver/piece_folder.h"

#include "ir/hash.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace graphopt::driver {
namespace fs = std::filesystem;
namespace {

/// The file that the code at `address` was loaded from, by size and time: another build is another file.
std::string buildOf(const void *address) {
  Dl_info info{};
  struct stat status{};
  if (!dladdr(address, &info) || !info.dli_fname || stat(info.dli_fname, &status) != 0)
    return "unknown";
  return fmt::format("{}.{}.{}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string gpus() {
  if (!at::globalContext().hasCUDA())
    return "none";
  const at::CUDAHooksInterface &hooks = at::detail::getCUDAHooks();
  return fmt::format("{} of {}", hooks.getNumGPUs(), hooks.showConfig());
}

/// What decides how LibTorch takes operators apart, beside the units and the switches.
std::string machineText() {
  return fmt::format("{} {} {} {}", buildOf(reinterpret_cast<const void *>(&pieceFolder)),
                     buildOf(reinterpret_cast<const void *>(&at::get_cpu_capability)),
                     at::get_cpu_capability(), gpus());
}

uint64_t hashOf(std::string_view text) {
  ir::Hasher hasher;
  hasher.add(text);
  return hasher.value();
}

} // namespace

fs::path pieceFolder() {
  if (const char *given = std::getenv("GRAPHOPT_CACHE_DIR"); given && *given)
    return given == std::string_view("off") ? fs::path() : fs::path(given);
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return fs::path(cache) / "graphopt" / "pieces";
  const char *home = std::getenv("HOME");
  return home && *home ? fs::path(home) / ".cache" / "graphopt" / "pieces" : fs::path();
}

PieceFolder::PieceFolder(fs::path folder, std::string switches, uintmax_t most)
    : folder_(std::move(folder)), switches_(std::move(switches)), machine_(machineText()), most_(most) {}

/// What processes that died left half written ages like the rest. Files that others remove meanwhile are
/// gone.
void PieceFolder::shrink() {
  struct File {
    fs::file_time_type written;
    uintmax_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uintmax_t bytes = 0;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder_, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!entry->is_regular_file(error))
      continue;
    files.push_back({entry->last_write_time(error), entry->file_size(error), entry->path()});
    bytes += files.back().bytes;
  }
  std::ranges::sort(files, {}, &File::written);
  for (auto file = files.begin(); file != files.end() && bytes > most_; ++file) {
    fs::remove(file->path, error);
    bytes -= file->bytes;
  }
}

fs::path PieceFolder::fileOf(const std::string &unit) const {
  return folder_ / fmt::format("{:016x}.gir", hashOf(switches_ + unit));
}

std::string PieceFolder::head(const std::string &contents) const {
  return fmt::format("// graphopt pieces {:016x} {:016x}\n", hashOf(machine_ + switches_), hashOf(contents));
}

std::optional<std::string> PieceFolder::read(const std::string &unit) {
  if (folder_.empty())
    return std::nullopt;
  std::ifstream file(fileOf(unit), std::ios::binary);
  std::string first, contents;
  if (!file || !std::getline(file, first))
    return std::nullopt;
  contents.assign(std::istreambuf_iterator<char>(file), {});
  const bool isWhole = head(contents) == first + "\n"; // a cut or damaged file is none
  if (!isWhole || !contents.starts_with(unit))
    return std::nullopt;
  return contents.substr(unit.size());
}

void PieceFolder::write(const std::string &unit, const std::string &pieces) {
  if (folder_.empty())
    return;
  std::error_code error; // a full disk or a folder of somebody else's: the next process probes again
  fs::create_directories(folder_, error);
  if (!std::exchange(isShrunk_, true))
    shrink();
  static std::atomic<unsigned> writes{0}; // threads have the process's number in common
  const fs::path place = fileOf(unit), beside = fmt::format("{}.{}.{}", place.string(), getpid(), ++writes);
  const std::string contents = unit + pieces;
  {
    std::ofstream file(beside, std::ios::binary);
    file << head(contents) << contents;
    if (!file.flush()) {
      fs::remove(beside, error);
      return;
    }
  }
  fs::rename(beside, place, error);
}

} // namespace graphopt::driver
