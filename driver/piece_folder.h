// Pieces on disk: one file a unit, so that a second process lowers without probing.
#pragma once
#include "passes/piece_book.h"

#include <cstdint>
#include <filesystem>

namespace graphopt::driver {

/// Where pieces are kept: $GRAPHOPT_CACHE_DIR, else graphopt/pieces in $XDG_CACHE_HOME or ~/.cache; empty
/// when GRAPHOPT_CACHE_DIR is `off` or there is no home.
std::filesystem::path pieceFolder();

/// Files are only good for the build of graphopt and LibTorch, the processor and GPU, and the switches that
/// they were written under: each says so in its first line, and others are not read. Many processes may use a
/// folder.
class PieceFolder final : public passes::PieceStore {
public:
  /// `switches` is the part of the key that no unit says (capture::switchesText()). An empty folder keeps
  /// nothing. Before its first write, files beyond `most` bytes in all go, those first that were written
  /// longest ago.
  PieceFolder(std::filesystem::path folder, std::string switches, uintmax_t most = kMostBytes);
  std::optional<std::string> read(const std::string &unit) override;
  void write(const std::string &unit, const std::string &pieces) override;

private:
  static constexpr uintmax_t kMostBytes = 256u << 20;
  void shrink();
  std::filesystem::path fileOf(const std::string &unit) const;
  std::string head(const std::string &contents) const;
  std::filesystem::path folder_;
  std::string switches_, machine_;
  uintmax_t most_;
  bool isShrunk_ = false;
};

} // namespace graphopt::driver
