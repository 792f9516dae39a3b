// Which operators a piece of code runs, down to the last one that the dispatcher sees.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace graphopt::corpus {

/// Runs `work` and names this thread's operators in order, those that operators call included.
std::vector<std::string> operatorsOf(const std::function<void()> &work);

/// Empty when equal, else the first place where the two differ.
std::string firstDifference(const std::vector<std::string> &want, const std::vector<std::string> &got);

} // namespace graphopt::corpus
