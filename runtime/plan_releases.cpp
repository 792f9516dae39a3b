// One walk backwards: the first use that is met is the last.
#include "runtime/plan_releases.h"

#include <set>

namespace graphopt::runtime {
namespace {

class Releases {
public:
  explicit Releases(const Plan &plan) : seen_(plan.outputs.begin(), plan.outputs.end()) {
    for (const PlanInput &input : plan.inputs)
      seen_.insert(input.slot);
    for (const PlanConstant &constant : plan.constants)
      seen_.insert(constant.slot);
  }

  void operator()(WritebackStep &step) { releaseLast({step.target, step.source}, step.release); }

  void operator()(CallStep &step) {
    dropUnused(step.results);
    for (const PlanArgument &argument : step.arguments)
      releaseLast(argument.slots, step.release);
  }

  void operator()(LeavesStep &step) {
    releaseLast(step.results, step.release); // a leaf that nothing reads
    releaseLast(step.sources, step.release);
  }

  void operator()(GradientsStep &step) {
    dropUnused(step.results);
    for (const std::vector<int> *slots : {&step.outputs, &step.cotangents, &step.leaves})
      releaseLast(*slots, step.release);
  }

  void operator()(RngStep &) {}

private:
  void dropUnused(std::vector<int> &results) const {
    for (int &slot : results)
      if (!seen_.contains(slot))
        slot = -1;
  }

  void releaseLast(const std::vector<int> &slots, std::vector<int> &release) {
    for (int slot : slots)
      if (slot != -1 && seen_.insert(slot).second)
        release.push_back(slot);
  }

  std::set<int> seen_; // in use by a later step, or held for good
};

} // namespace

void addReleases(Plan &plan) {
  Releases releases(plan);
  for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step)
    std::visit(releases, *step);
}

} // namespace graphopt::runtime
