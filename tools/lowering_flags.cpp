// With a file of pieces nothing is probed: so what a GPU's LibTorch does is read where there is no GPU.
#include "tools/lowering_flags.h"

#include "runtime/catalog.h"
#include "tools/files.h"

namespace graphopt::tools {

void LoweringFlags::add(CLI::App &app) {
  app.add_option("--pieces", from_, "lower by the pieces of this file alone, and probe nothing")
      ->type_name("FILE")
      ->group("Lowering");
  app.add_option("--save-pieces", to_, "write what operators are made of, for --pieces")
      ->type_name("FILE")
      ->group("Lowering");
}

passes::PieceBook &LoweringFlags::pieces() {
  if (fromFile_)
    return *fromFile_;
  if (!from_.empty()) {
    fromFile_ = std::make_unique<passes::PieceBook>(nullptr, &runtime::dispatcherCatalog());
    fromFile_->add(readText(from_));
    return *fromFile_;
  }
  if (!lowering_)
    lowering_ = std::make_unique<driver::Lowering>(driver::pieceFolder());
  return lowering_->pieces();
}

void LoweringFlags::save() {
  if (!to_.empty())
    writeText(to_, pieces().text());
}

} // namespace graphopt::tools
