// C++ modules for the main job's tests: small, seeded, one awkward trait each.
#pragma once
#include "test/corpus/pipeline_check.h"

#include <string>
#include <vector>

namespace graphopt::testmodels {

struct ModelCase {
  std::string name;
  corpus::Factory make; // the same weights and inputs at each call
};

/// Networks of nn modules: MLP, CNN, transformer, LSTM ...
std::vector<ModelCase> networks();
/// Programs about memory: views, in-place, aliases, host-made data.
std::vector<ModelCase> memoryPrograms();
/// TorchScript compiled from source.
std::vector<ModelCase> scripts();

} // namespace graphopt::testmodels
