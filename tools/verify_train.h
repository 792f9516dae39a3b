// graphopt verify --gradients: training calls through compiled backwards, beside the same calls run eagerly.
#pragma once
#include "tools/model.h"

#include <string>

namespace graphopt::tools {

struct VerifyTraining {
  const ModelFlags &model;
  bool bars = false; ///< results and gradients by the fp64 rule, else bit for bit; state is always exact
  std::string output = "-";
};

/// The exit status.
int verifyTraining(const VerifyTraining &options);

} // namespace graphopt::tools
