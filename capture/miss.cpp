// Says how a call differs from what was recorded: the first difference, with both sides.
#include "capture/frame.h"
#include "capture/matching.h"
#include "capture/to_attr.h"
#include "ir/attr.h"

namespace graphopt::capture {
namespace {

std::string textOf(const c10::IValue &value, const ArgumentFacts &argument) {
  if (value.isTensor())
    return value.toTensor().defined() ? toString(metadataOf(value.toTensor())) : "none";
  if (argument.role == ArgumentFacts::Role::TensorList)
    return value.isList() ? fmt::format("a list of {} tensors", value.toListRef().size()) : "none";
  return toString(toAttr(value, *argument.type));
}

std::string recordedText(const Segment &segment, const RowInfo &info, size_t argument) {
  const ArgumentFacts &facts = info.facts->arguments[argument];
  if (facts.role == ArgumentFacts::Role::Attr)
    return toString(toAttr(info.arguments[argument], *facts.type));
  const ValueIds &ids = info.operands[argument];
  if (facts.role == ArgumentFacts::Role::TensorList)
    return fmt::format("a list of {} tensors", ids.size());
  return ids.empty() || ids[0] == 0 ? "none" : toString(segment.values[ids[0]].metadata);
}

std::string at(const RowInfo &info) { return info.module.empty() ? "" : " at " + info.module; }

std::string threadText(ThreadWord word) {
  std::string text = fmt::format("grad {}, inference {}", ThreadProbe::grad(word) ? "on" : "off",
                                 ThreadProbe::inference(word) ? "on" : "off");
  for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA})
    if (ThreadProbe::autocast(word, device))
      text += fmt::format(", autocast {}{}", device == c10::kCPU ? "" : "of CUDA ",
                          ir::dtypeName(ThreadProbe::autocastDtype(word, device)));
  return text;
}

} // namespace

std::string Frame::whyDifferent(const OperatorFacts &facts, c10::DispatchKeySet keys,
                                const torch::jit::Stack &stack) {
  const Segment &segment = active_->node->segment;
  const Row &row = segment.rows[matched_];
  const RowInfo &info = segment.infos[matched_];
  if (info.facts->name != facts.name)
    return fmt::format("{}{}, recorded {}", facts.name, at(info), info.facts->name);
  std::string place = facts.name + at(info);
  if (row.thread != thread_.now())
    return fmt::format("{}: {}, recorded {}", place, threadText(thread_.now()), threadText(row.thread));
  Matcher matcher(*this, row);
  WordReader<Matcher> reader(matcher);
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    const ArgumentFacts &argument = facts.arguments[i];
    if (reader.boxed(values[i], argument.role != ArgumentFacts::Role::Attr, argument.isNumber))
      continue;
    undo();
    std::string actual = textOf(values[i], argument), recorded = recordedText(segment, info, i);
    if (actual == recorded)
      return fmt::format("{}: '{}' is another tensor ({}) than the one recorded", place, argument.name,
                         actual);
    return fmt::format("{}: '{}' is {}, recorded {}", place, argument.name, actual, recorded);
  }
  undo();
  if (row.keys != keys.raw_repr())
    return fmt::format("{}: other dispatch keys ({}, recorded {})", place, c10::toString(keys),
                       c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, row.keys)));
  if (settings_.now() != segment.settings)
    return place + ": a process-wide switch (threads, determinism, precision, backends) is another";
  return place +
         ": its arguments are as recorded, but no rule tells the sizes of its results (explain() names "
         "such operators), it writes memory that other tensors hold, or it draws after a reseeding";
}

std::string Frame::whyNoStart(const c10::OperatorHandle &op, const OperatorFacts &facts,
                              c10::DispatchKeySet keys, const torch::jit::Stack &stack) {
  std::vector<SegmentPtr> nodes = graph_.startingWith(&op.operator_name(), previous_.get());
  if (nodes.empty())
    return "";
  enter(activationOf(nodes.front()));
  std::string reason = whyDifferent(facts, keys, stack);
  leave();
  return reason;
}

} // namespace graphopt::capture
