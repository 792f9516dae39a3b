// aten.def against LibTorch itself: names, conditions and positions against the schemas, effects against the
// tags, and the autocast column against the lists of ATen/autocast_mode.h.
#include "ir/op_catalog.h"
#include "ir/op_table.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

using namespace graphopt::ir;

namespace {
using Schemas = std::map<std::string, c10::OperatorHandle>; // by IR name, aten only

const Schemas &atenSchemas() {
  static const Schemas schemas = [] {
    Schemas found;
    for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
      auto handle = c10::Dispatcher::singleton().findSchema(name);
      if (handle && name.name.starts_with("aten::"))
        found.emplace(joinOpName({"aten", name.name.substr(6), name.overload_name}), *handle);
    }
    return found;
  }();
  return schemas;
}

/// The operators that a row speaks for.
std::vector<const c10::OperatorHandle *> operatorsOf(const AtenRow &row) {
  std::vector<const c10::OperatorHandle *> found;
  for (const auto &[name, handle] : atenSchemas())
    if (findAten(name) == &row)
      found.push_back(&handle);
  return found;
}

const c10::Argument *argument(const c10::OperatorHandle &op, std::string_view name) {
  for (const c10::Argument &arg : op.schema().arguments())
    if (arg.name() == name)
      return &arg;
  return nullptr;
}

/// Tensor arguments, lists and optionals included: the operands.
std::vector<const c10::Argument *> operandsOf(const c10::OperatorHandle &op) {
  std::vector<const c10::Argument *> found;
  for (const c10::Argument &arg : op.schema().arguments())
    if (arg.type()->str().find("Tensor") != std::string::npos)
      found.push_back(&arg);
  return found;
}

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  return {std::istream_iterator<std::string>(in), {}};
}

std::string autocastName(std::string base, std::string overload = "") {
  return joinOpName({"aten", std::move(base), std::move(overload)});
}

/// The lists of the header, by IR name.
std::map<std::string, AutocastClass> autocastLists() {
  std::map<std::string, AutocastClass> lists;
  AutocastClass current = AutocastClass::None;
  auto add = [&](std::vector<std::string> parts) {
    lists[autocastName(parts[0], parts.size() > 1 ? parts[1] : "")] = current;
  };
#define ONE(a) add({#a})
#define TWO(a, b) add({#a, #b})
#define PICK(a, b, name, ...) name
#define ADD(...) PICK(__VA_ARGS__, TWO, ONE)(__VA_ARGS__);
#define ADD_WITH_NAME(function, name, ...) lists["aten." name] = current;
  current = AutocastClass::Low;
  AT_FORALL_LOWER_PRECISION_FP(ADD)
  current = AutocastClass::Fp32;
  AT_FORALL_FP32(ADD)
  current = AutocastClass::Fp32Opt;
  AT_FORALL_FP32_SET_OPT_DTYPE(ADD)
  current = AutocastClass::Fp32Append;
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(ADD_WITH_NAME)
  current = AutocastClass::Promote;
  AT_FORALL_PROMOTE(ADD)
#undef ONE
#undef TWO
#undef PICK
#undef ADD
#undef ADD_WITH_NAME
  // Not a list of the header: autocast_mode.cpp registers this one by hand, to refuse it.
  lists["aten.binary_cross_entropy"] = AutocastClass::Banned;
  return lists;
}

/// Tagged as random although they draw nothing: the choice of an attention kernel, and backward operators,
/// which get the forward's random state as an argument.
bool isTaggedForNothing(const std::string &name) {
  return name == "aten._fused_sdp_choice" || name.ends_with("_backward") ||
         name == "aten._nested_tensor_softmax_with_shape";
}

bool isTruthy(const c10::IValue &value) {
  if (value.isNone())
    return false;
  return value.isBool() ? value.toBool() : value.toScalar().toDouble() != 0;
}

bool readsHost(const c10::OperatorHandle &op) {
  return op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
}
} // namespace

TEST(AtenTable, AutocastColumnIsTheListsOfTheHeader) {
  std::map<std::string, AutocastClass> lists = autocastLists();
  EXPECT_GT(lists.size(), 100u);
  for (const auto &[name, expected] : lists) {
    const AtenRow *row = findAten(name);
    ASSERT_TRUE(row) << name;
    EXPECT_EQ(row->autocast, expected) << name;
  }
  for (const AtenRow &row : atenRows()) {
    bool listed = lists.contains(std::string(row.name));
    EXPECT_EQ(row.autocast != AutocastClass::None, listed) << row.name;
  }
}

TEST(AtenTable, EveryRowSpeaksForAnOperator) {
  for (const AtenRow &row : atenRows())
    EXPECT_FALSE(operatorsOf(row).empty()) << row.name;
}

TEST(AtenTable, OperatorsThatTakeAnyOrderAreThereAndNotPointwiseAnyway) {
  for (const std::string_view row : anyOrderRows()) {
    size_t count = 0, pointwise = 0;
    for (const auto &[name, op] : atenSchemas()) {
      const std::string family =
          std::string(row.substr(0, row.find(".*"))) + (row.ends_with(".*") ? "" : "!");
      const bool isIt =
          row == name || (row.ends_with(".*") && (name == family || name.starts_with(family + ".")));
      count += isIt && takesAnyOrder(name);
      pointwise += isIt && op.hasTag(at::Tag::pointwise);
      EXPECT_FALSE(isIt && argument(op, "storage_offset")) << name << " speaks of memory";
    }
    EXPECT_GT(count, 0u) << row;
    EXPECT_EQ(pointwise, 0u) << row << " has the tag that says so";
  }
  EXPECT_FALSE(takesAnyOrder("aten.view"));
}

TEST(AtenTable, ConditionsNameArgumentsAndTheirDefaults) {
  for (const AtenRow &row : atenRows()) {
    for (const c10::OperatorHandle *op : operatorsOf(row)) {
      for (std::string word : words(row.when)) {
        if (word[0] == '$') {
          EXPECT_LT(static_cast<size_t>(word[1] - '0'), operandsOf(*op).size()) << row.name;
          continue;
        }
        if (word[0] == '!')
          word.erase(0, 1);
        bool defaultsToFalse = word.ends_with('?');
        if (defaultsToFalse)
          word.pop_back();
        const c10::Argument *arg = argument(*op, word);
        ASSERT_TRUE(arg) << row.name << " has no argument " << word;
        EXPECT_EQ(arg->default_value().has_value(), defaultsToFalse) << op->schema();
        EXPECT_FALSE(isTruthy(arg->default_value().value_or(c10::IValue()))) << op->schema();
      }
    }
  }
}

TEST(AtenTable, HiddenWritesAreRunningStatisticsThatTheSchemaDoesNotMark) {
  for (const AtenRow &row : atenRows()) {
    for (const c10::OperatorHandle *op : operatorsOf(row)) {
      for (const std::string &position : words(row.writes)) {
        const c10::Argument &arg = *operandsOf(*op).at(std::stoul(position));
        EXPECT_TRUE(arg.name() == "running_mean" || arg.name() == "running_var") << op->schema();
        EXPECT_FALSE(arg.alias_info() && arg.alias_info()->isWrite()) << op->schema();
      }
    }
  }
}

TEST(AtenTable, EveryOperatorThatTakesRunningStatisticsAndAMomentumHasARow) {
  for (const auto &[name, op] : atenSchemas()) {
    const c10::Argument *mean = argument(op, "running_mean");
    bool updates = argument(op, "momentum") || argument(op, "exponential_average_factor");
    bool isHonest = name.find("functional") != std::string::npos ||
                    name.find("no_training") != std::string::npos ||
                    name.find("no_update") != std::string::npos;
    if (!mean || !updates || isHonest || (mean->alias_info() && mean->alias_info()->isWrite()))
      continue;
    const AtenRow *row = findAten(name);
    EXPECT_TRUE(row && !row->writes.empty()) << op.schema();
  }
}

TEST(AtenTable, TaggedOperatorsHaveARowThatSaysSo) {
  size_t random = 0, reading = 0;
  for (const auto &[name, op] : atenSchemas()) {
    const AtenRow *row = findAten(name);
    if (op.hasTag(at::Tag::nondeterministic_seeded) && !isTaggedForNothing(name)) {
      ++random;
      EXPECT_TRUE(row && (row->effects & kRandom)) << op.schema();
    }
    if (readsHost(op)) {
      ++reading;
      EXPECT_TRUE(row && (row->effects & kHostRead)) << op.schema();
    }
  }
  EXPECT_GT(random, 100u);
  EXPECT_GT(reading, 15u);
}

TEST(AtenTable, RandomRowsTakeAGeneratorOrAreTagged) {
  for (const AtenRow &row : atenRows()) {
    if (!(row.effects & kRandom))
      continue;
    auto isRandom = [](const c10::OperatorHandle *op) {
      return op->hasTag(at::Tag::nondeterministic_seeded) || argument(*op, "generator");
    };
    std::vector<const c10::OperatorHandle *> ops = operatorsOf(row);
    EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), isRandom)) << row.name;
  }
}
