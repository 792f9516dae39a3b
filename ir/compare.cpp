// Structural comparison: both graphs are walked in text order and their values are matched by position, so
// names play no part. The hash walks the same things in the same order.
#include "ir/compare.h"
#include "ir/hash.h"
#include "ir/print.h"
#include "ir/quote.h"

#include <fmt/format.h>
#include <unordered_map>

namespace graphopt::ir {

namespace {
bool hasState(const Op &op) { return op.computes(); }

class Comparison {
public:
  Comparison(const Graph &a, const Graph &b, const CompareOptions &options)
      : a_(a), b_(b), options_(options) {}

  std::string run() {
    header();
    declarations();
    guards();
    blocks(a_.body(), b_.body());
    return std::move(found_);
  }

private:
  /// Notes the first difference; the places are in the words of the text.
  void differ(std::string_view what, const std::string &a, const std::string &b) {
    if (found_.empty())
      found_ = fmt::format("{}: {} against {}", what, a, b);
  }
  void compare(std::string_view what, std::string_view a, std::string_view b) {
    if (a != b)
      differ(what, std::string(a), std::string(b));
  }
  void compareCounts(std::string_view what, size_t a, size_t b) {
    if (a != b)
      differ(what, std::to_string(a), std::to_string(b));
  }

  void header() {
    if (options_.names)
      compare("name", a_.name, b_.name);
    compare("stage", toString(a_.stage), toString(b_.stage));
    if (a_.stage == Stage::Captured)
      compare("form", toString(a_.form), toString(b_.form));
    compare("device", toString(a_.device), toString(b_.device));
    attrs("settings", a_.settings, b_.settings);
    compareCounts("number of syms", a_.syms.size(), b_.syms.size());
    for (size_t i = 0; found_.empty() && i < a_.syms.size(); ++i)
      if (a_.syms[i] != b_.syms[i])
        differ(fmt::format("sym {}", i), a_.syms[i].name, b_.syms[i].name);
  }

  void declarations() {
    const auto &a = a_.declarations(), &b = b_.declarations();
    compareCounts("number of declarations", a.size(), b.size());
    for (size_t i = 0; found_.empty() && i < a.size(); ++i) {
      std::string what = fmt::format("declaration {}", i);
      compare(what, toString(a[i]->kind), toString(b[i]->kind));
      values(what, *a[i], *b[i]);
      compare(what, a[i]->contentHash, b[i]->contentHash);
      if (a[i]->content != b[i]->content)
        differ(what, toString(a[i]->content), toString(b[i]->content));
    }
  }

  /// Two definitions: from here on they are the same value.
  void values(const std::string &what, const Value &a, const Value &b) {
    if (a.type != b.type)
      differ(what, toString(a.type), toString(b.type));
    if (options_.names)
      compare(what, valueText(a.name), valueText(b.name));
    match_.emplace(&a, &b);
  }

  void guards() {
    compareCounts("number of guards", a_.guards.size(), b_.guards.size());
    for (size_t i = 0; found_.empty() && i < a_.guards.size(); ++i) {
      const Guard &a = a_.guards[i], &b = b_.guards[i];
      bool same = a.number == b.number && a.kind == b.kind && a.cmp == b.cmp && a.expected == b.expected &&
                  sameOperands(a.operands, b.operands);
      if (!same)
        differ(fmt::format("guard {}", i), print(a), print(b));
    }
  }

  bool sameOperands(const std::vector<Operand> &a, const std::vector<Operand> &b) {
    bool same = a.size() == b.size();
    for (size_t i = 0; same && i < a.size(); ++i)
      same = sameOperand(a[i], b[i]);
    return same;
  }

  bool sameOperand(const Operand &a, const Operand &b) {
    if (a.kind != b.kind || a.mark != b.mark || a.literal != b.literal)
      return false;
    if (a.kind == Operand::Kind::List)
      return sameOperands(a.items, b.items);
    if (a.kind != Operand::Kind::Value)
      return true;
    auto matched = match_.find(a.value);
    return matched != match_.end() && matched->second == b.value;
  }

  void attrs(std::string_view what, const std::vector<NamedAttr> &a, const std::vector<NamedAttr> &b) {
    compareCounts(fmt::format("{}: number of attributes", what), a.size(), b.size());
    for (size_t i = 0; found_.empty() && i < a.size(); ++i)
      if (a[i] != b[i])
        differ(what, fmt::format("{}={}", keyText(a[i].name), toString(a[i].value)),
               fmt::format("{}={}", keyText(b[i].name), toString(b[i].value)));
  }

  void blocks(const Block &a, const Block &b) {
    for (auto x = a.begin(), y = b.begin(); found_.empty() && x != a.end() && y != b.end(); ++x, ++y)
      ops(**x, **y);
    if (found_.empty())
      compareCounts("number of ops", a.size(), b.size());
  }

  void ops(const Op &a, const Op &b) {
    std::string what = fmt::format("op {}", count_++);
    bool sameHead =
        a.kind == b.kind && a.name == b.name && a.groupKind == b.groupKind && a.number == b.number;
    if (!sameHead)
      differ(what, a.name, b.name);
    if (found_.empty() && !sameOperands(a.operands(), b.operands()))
      differ(what + ": operands", print(a), print(b));
    attrs(what, a.attrs, b.attrs);
    if (options_.states && hasState(a) && found_.empty() && a_.states.at(a.state) != b_.states.at(b.state))
      differ(what + ": scope or ambient state", a_.states.at(a.state).scope, b_.states.at(b.state).scope);
    compareCounts(what + ": number of bodies", a.body() != nullptr, b.body() != nullptr);
    if (found_.empty() && a.body())
      blocks(*a.body(), *b.body());
    compareCounts(what + ": number of results", a.results().size(), b.results().size());
    for (size_t i = 0; found_.empty() && i < a.results().size(); ++i)
      values(fmt::format("{}: result {}", what, i), *a.result(i), *b.result(i));
  }

  const Graph &a_;
  const Graph &b_;
  const CompareOptions &options_;
  std::string found_;
  size_t count_ = 0;
  std::unordered_map<const Value *, const Value *> match_;
};

/// Feeds a graph to a hash; a value is the number of its definition.
class Hashing {
public:
  uint64_t run(const Graph &graph) {
    states_ = &graph.states;
    add(toString(graph.stage));
    if (graph.stage == Stage::Captured)
      add(toString(graph.form));
    add(toString(graph.device));
    attrs(graph.settings);
    for (const Sym &sym : graph.syms) {
      add(sym.name);
      hasher_.add(static_cast<uint64_t>(sym.range.lo));
      hasher_.add(static_cast<uint64_t>(sym.range.hi));
    }
    for (const Value *value : graph.declarations())
      declaration(*value);
    for (const Guard &guard : graph.guards)
      this->guard(guard);
    block(graph.body());
    return hasher_.value();
  }

private:
  void add(std::string_view text) { hasher_.add(text); }
  void add(size_t number) { hasher_.add(static_cast<uint64_t>(number)); }

  void define(const Value &value) {
    add(toString(value.type));
    numbers_.emplace(&value, numbers_.size());
  }

  void declaration(const Value &value) {
    add(toString(value.kind));
    define(value);
    add(hashOf(value.content));
    add(value.contentHash);
  }

  void guard(const Guard &guard) {
    add(static_cast<size_t>(guard.number));
    add(guard.kind);
    add(toString(guard.cmp));
    operands(guard.operands);
    bool isType = std::holds_alternative<Type>(guard.expected);
    add(isType ? toString(std::get<Type>(guard.expected)) : toString(std::get<Attr>(guard.expected)));
  }

  void operands(const std::vector<Operand> &operands) {
    add(operands.size());
    for (const Operand &operand : operands) {
      add(static_cast<size_t>(operand.kind));
      add(static_cast<size_t>(operand.mark));
      if (operand.kind == Operand::Kind::Literal)
        add(hashOf(operand.literal));
      if (operand.kind == Operand::Kind::List)
        this->operands(operand.items);
      if (operand.kind == Operand::Kind::Value)
        add(numbers_.at(operand.value));
    }
  }

  void attrs(const std::vector<NamedAttr> &attrs) {
    add(attrs.size());
    for (const NamedAttr &attr : attrs) {
      add(attr.name);
      add(hashOf(attr.value));
    }
  }

  void block(const Block &block) {
    add(block.size());
    for (const auto &op : block)
      this->op(*op);
  }

  void op(const Op &op) {
    add(static_cast<size_t>(op.kind));
    add(op.name);
    add(op.groupKind);
    add(static_cast<size_t>(op.number));
    operands(op.operands());
    attrs(op.attrs);
    if (hasState(op)) {
      const OpState &state = states_->at(op.state);
      add(state.scope);
      add(static_cast<size_t>(state.scopeGuessed));
      attrs(state.ambient);
    }
    if (op.body())
      block(*op.body());
    add(op.results().size());
    for (const Value *result : op.results())
      define(*result);
  }

  Hasher hasher_;
  const std::vector<OpState> *states_ = nullptr;
  std::unordered_map<const Value *, size_t> numbers_;
};

void addOperands(Hasher &hasher, const std::vector<Operand> &operands) {
  for (const Operand &operand : operands) {
    hasher.add(static_cast<uint64_t>(operand.kind) * 4 + static_cast<uint64_t>(operand.mark));
    if (operand.kind == Operand::Kind::Value)
      hasher.add(static_cast<uint64_t>(operand.value->id()));
    hasher.add(static_cast<uint64_t>(hashOf(operand.literal)));
    hasher.add(static_cast<uint64_t>(operand.items.size()));
    addOperands(hasher, operand.items);
  }
}

bool sameValues(const std::vector<Operand> &a, const std::vector<Operand> &b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i].kind == b[i].kind && a[i].mark == b[i].mark && a[i].value == b[i].value &&
           a[i].literal == b[i].literal && sameValues(a[i].items, b[i].items);
  return same;
}
} // namespace

std::string difference(const Graph &a, const Graph &b, const CompareOptions &options) {
  return Comparison(a, b, options).run();
}

uint64_t structuralHash(const Graph &graph) { return Hashing().run(graph); }

uint64_t hashOf(const Op &op) {
  Hasher hasher;
  hasher.add(static_cast<uint64_t>(op.kind));
  hasher.add(op.name);
  addOperands(hasher, op.operands());
  for (const NamedAttr &attr : op.attrs) {
    hasher.add(attr.name);
    hasher.add(static_cast<uint64_t>(hashOf(attr.value)));
  }
  return hasher.value();
}

bool sameComputation(const Graph &graph, const Op &a, const Op &b) {
  bool sameHead = a.kind == b.kind && a.name == b.name && a.attrs == b.attrs && !a.body() && !b.body();
  if (!sameHead || a.results().size() != b.results().size() || !sameValues(a.operands(), b.operands()))
    return false;
  for (size_t i = 0; i < a.results().size(); ++i)
    if (a.result(i)->type != b.result(i)->type)
      return false;
  return graph.states.at(a.state).ambient == graph.states.at(b.state).ambient;
}

} // namespace graphopt::ir
