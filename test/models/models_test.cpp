// Every C++ module and script through the whole main job, equal to eager bit for bit in results, arguments
// and state.
#include "models.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace graphopt::testmodels {

class MainJob : public testing::TestWithParam<ModelCase> {};

TEST_P(MainJob, EqualsEager) {
  at::set_num_threads(1);
  corpus::Outcome outcome = corpus::check(GetParam().make, {.seed = 3});
  EXPECT_EQ(outcome.verdict, corpus::Outcome::Verdict::Equal) << outcome.step << ": " << outcome.reason;
  // C++ MultiheadAttention asks torch::equal(query, key) and torch::equal(key, value), once a layer each;
  // with a NaN that is false even for one and the same tensor, so it is a host read.
  EXPECT_EQ(outcome.borders, GetParam().name == "transformerEncoder" ? 4u : 0u);
  EXPECT_GE(outcome.captured, 1u);
}

std::string nameOf(const testing::TestParamInfo<ModelCase> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Networks, MainJob, testing::ValuesIn(networks()), nameOf);
INSTANTIATE_TEST_SUITE_P(Memory, MainJob, testing::ValuesIn(memoryPrograms()), nameOf);
INSTANTIATE_TEST_SUITE_P(Scripts, MainJob, testing::ValuesIn(scripts()), nameOf);

} // namespace graphopt::testmodels
