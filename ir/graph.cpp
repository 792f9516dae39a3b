// Graph, Op, Value: ownership, use lists, names.
#include "ir/graph.h"
#include "ir/quote.h"

#include <algorithm>
#include <graphopt/error.h>
#include <unordered_map>

namespace graphopt::ir {

namespace {
template <class E, size_t N>
std::optional<E> parseEnum(const std::string_view (&names)[N], std::string_view text) {
  auto it = std::find(std::begin(names), std::end(names), text);
  if (it == std::end(names))
    return std::nullopt;
  return static_cast<E>(it - std::begin(names));
}
constexpr std::string_view kStages[] = {"captured", "lowered", "core", "fused", "planned"};
constexpr std::string_view kForms[] = {"raw", "functional"};
constexpr std::string_view kDeclarations[] = {"input",   "param", "buffer",    "outside",
                                              "hostval", "const", "cotangent", ""};
constexpr std::string_view kCmps[] = {"==", "!=", "<=", "<", ">=", ">", "in"};

template <class F> void visitValues(const std::vector<Operand> &operands, const F &f) {
  for (const Operand &operand : operands) {
    if (operand.kind == Operand::Kind::Value)
      f(operand);
    else if (operand.kind == Operand::Kind::List)
      visitValues(operand.items, f);
  }
}

void replaceIn(std::vector<Operand> &operands, Value *from, Value *to) {
  for (Operand &operand : operands) {
    if (operand.kind == Operand::Kind::Value && operand.value == from)
      operand.value = to;
    else if (operand.kind == Operand::Kind::List)
      replaceIn(operand.items, from, to);
  }
}
} // namespace

std::string_view toString(Stage stage) { return kStages[static_cast<size_t>(stage)]; }
std::string_view toString(Form form) { return kForms[static_cast<size_t>(form)]; }
std::string_view toString(Value::Kind kind) { return kDeclarations[static_cast<size_t>(kind)]; }
std::string_view toString(Guard::Cmp cmp) { return kCmps[static_cast<size_t>(cmp)]; }
std::optional<Stage> parseStage(std::string_view text) { return parseEnum<Stage>(kStages, text); }
std::optional<Form> parseForm(std::string_view text) { return parseEnum<Form>(kForms, text); }

Operand Operand::of(ir::Value *value, Mark mark) {
  Operand operand;
  operand.kind = Kind::Value;
  operand.value = value;
  operand.mark = mark;
  return operand;
}

Operand Operand::list(std::vector<Operand> items) {
  Operand operand;
  operand.kind = Kind::List;
  operand.items = std::move(items);
  return operand;
}

Operand Operand::lit(Attr literal) {
  Operand operand;
  if (literal.isNone())
    return operand;
  if (literal.isList()) {
    operand.kind = Kind::List;
    for (const Attr &item : literal.items())
      operand.items.push_back(lit(item));
    return operand;
  }
  operand.kind = Kind::Literal;
  operand.literal = std::move(literal);
  return operand;
}

std::optional<Attr> Operand::asAttr() const {
  if (kind == Kind::Value)
    return std::nullopt;
  if (kind != Kind::List)
    return literal; // none for Kind::None
  std::vector<Attr> attrs;
  for (const Operand &item : items) {
    std::optional<Attr> attr = item.asAttr();
    if (!attr)
      return std::nullopt;
    attrs.push_back(std::move(*attr));
  }
  return Attr::list(std::move(attrs));
}

// ---- Op

Op::~Op() = default;

const Attr *Op::attr(std::string_view attrName) const {
  for (const NamedAttr &a : attrs)
    if (a.name == attrName)
      return &a.value;
  return nullptr;
}

void Op::setAttr(std::string_view attrName, Attr value) {
  for (NamedAttr &a : attrs) {
    if (a.name == attrName) {
      a.value = std::move(value);
      return;
    }
  }
  attrs.push_back({std::string(attrName), std::move(value)});
}

void Op::removeAttr(std::string_view attrName) {
  std::erase_if(attrs, [&](const NamedAttr &a) { return a.name == attrName; });
}

void Op::link() {
  useSlots_.reserve(operands_.size());
  visitValues(operands_, [&](const Operand &o) {
    o.value->useIndex_.push_back(static_cast<uint32_t>(useSlots_.size()));
    useSlots_.push_back(o.value->users_.size());
    o.value->users_.push_back(this);
  });
}

// The last user moves into the gap, so a value with very many users costs no more than one with two.
void Op::unlink() {
  size_t use = 0;
  visitValues(operands_, [&](const Operand &o) {
    auto &users = o.value->users_;
    auto &indices = o.value->useIndex_;
    size_t slot = useSlots_[use++];
    GO_ASSERT(slot < users.size() && users[slot] == this, "use list lost a user");
    users[slot] = users.back();
    indices[slot] = indices.back();
    users[slot]->useSlots_[indices[slot]] = slot;
    users.pop_back();
    indices.pop_back();
  });
  useSlots_.clear();
}

void Op::setOperands(std::vector<Operand> operands) {
  unlink();
  operands_ = std::move(operands);
  link();
}

void Op::setOperand(size_t i, Operand operand) {
  unlink();
  operands_.at(i) = std::move(operand);
  link();
}

void Op::replaceUses(Value *from, Value *to) {
  unlink();
  replaceIn(operands_, from, to);
  link();
}

void Op::forEachValue(const std::function<void(const Operand &)> &f) const { visitValues(operands_, f); }

bool Op::usesValue(const Value *value) const {
  bool found = false;
  forEachValue([&](const Operand &o) { found |= o.value == value; });
  return found;
}

bool Op::writesAny() const {
  bool found = false;
  visitValues(operands_, [&](const Operand &o) { found |= o.mark == Mark::Write; });
  return found;
}

bool Op::writes(const Value *value) const {
  bool found = false;
  forEachValue([&](const Operand &o) { found |= o.mark == Mark::Write && o.value == value; });
  return found;
}

// ---- Block

std::vector<Op *> Block::ops() const {
  std::vector<Op *> all;
  all.reserve(ops_.size());
  for (const auto &op : ops_)
    all.push_back(op.get());
  return all;
}

Op *Block::terminator() const {
  if (ops_.empty())
    return nullptr;
  Op *last = ops_.back().get();
  bool ends = last->kind == Op::Kind::Return || last->kind == Op::Kind::Yield;
  return ends ? last : nullptr;
}

// ---- Graph

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T> using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

struct Graph::Names {
  struct Named {
    Value *value = nullptr; // nullptr: was used, may not be used again
    int next = 0;           // number of the last name made of this one
  };
  TextMap<Named> values;
  TextMap<uint32_t> states; // key of a state -> its index in Graph::states
  size_t statesIndexed = 0; // how many of Graph::states the map knows

  Names() { values.reserve(128); }
};

namespace {
std::string keyOf(const OpState &state) {
  std::string key = (state.scopeGuessed ? "~" : "") + quoted(state.scope);
  for (const NamedAttr &attr : state.ambient)
    key += quoted(attr.name) + toString(attr.value);
  return key;
}
} // namespace

Graph::Graph(std::string graphName)
    : name(std::move(graphName)), states(1), body_(std::make_unique<Block>()),
      names_(std::make_unique<Names>()) {}
Graph::~Graph() = default;
Graph::Graph(Graph &&) noexcept = default;
Graph &Graph::operator=(Graph &&) noexcept = default;

std::vector<Value *> Graph::declared(Value::Kind kind) const {
  std::vector<Value *> found;
  for (Value *value : declarations_)
    if (value->kind == kind)
      found.push_back(value);
  return found;
}

Value *Graph::find(std::string_view valueName) const {
  auto it = names_->values.find(valueName);
  return it == names_->values.end() ? nullptr : it->second.value;
}

uint32_t Graph::intern(const OpState &state) {
  for (size_t &i = names_->statesIndexed; i < states.size(); ++i)
    names_->states.try_emplace(keyOf(states[i]), static_cast<uint32_t>(i));
  auto [it, isNew] = names_->states.try_emplace(keyOf(state), static_cast<uint32_t>(states.size()));
  if (isNew) {
    states.push_back(state);
    names_->statesIndexed = states.size();
  }
  return it->second;
}

const Sym *Graph::findSym(std::string_view symName) const {
  for (const Sym &sym : syms)
    if (sym.name == symName)
      return &sym;
  return nullptr;
}

bool Graph::isOpaque(const Op &op) const {
  const std::vector<NamedAttr> &ambient = states[op.state].ambient;
  return std::any_of(ambient.begin(), ambient.end(),
                     [](const NamedAttr &word) { return word.name == "opaque" && word.value.isWord("on"); });
}

std::string Graph::freshName(std::string_view base) {
  std::string wanted(base.empty() ? "0" : base);
  auto known = names_->values.find(wanted);
  if (known == names_->values.end())
    return wanted;
  int &n = known->second.next;
  std::string candidate;
  do
    candidate = wanted + "." + std::to_string(++n);
  while (names_->values.contains(candidate));
  return candidate;
}

Value *Graph::newValue(const std::string &valueName, Type type) {
  auto [entry, isNew] = names_->values.try_emplace(valueName);
  GO_ASSERT(isNew, "value name used twice: " + valueName);
  auto value = std::make_unique<Value>();
  value->name = valueName;
  value->type = std::move(type);
  if (value->type.device == device)
    value->type.device.reset(); // the graph's device goes without saying
  value->slot_ = values_.size();
  entry->second.value = value.get();
  values_.push_back(std::move(value));
  return values_.back().get();
}

Value *Graph::declare(Value::Kind kind, const std::string &valueName, Type type) {
  GO_ASSERT(kind != Value::Kind::Result, "a result is declared by its op");
  Value *value = newValue(valueName, std::move(type));
  value->kind = kind;
  declarations_.push_back(value);
  return value;
}

Value *Graph::addResult(Op *op, const std::string &valueName, Type type) {
  Value *value = newValue(freshName(valueName), std::move(type));
  value->def = op;
  value->resultIndex = op->results_.size();
  op->results_.push_back(value);
  return value;
}

Op *Graph::insert(Block &block, Block::List::iterator at, Op::Kind kind, std::string opName,
                  std::vector<Operand> operands, std::vector<NamedAttr> attrs,
                  const std::vector<ResultSpec> &results) {
  auto it = block.ops_.insert(at, std::unique_ptr<Op>(new Op(kind)));
  Op *op = it->get();
  op->name = std::move(opName);
  op->attrs = std::move(attrs);
  op->parent_ = &block;
  op->self_ = it;
  op->setOperands(std::move(operands));
  for (const ResultSpec &spec : results)
    addResult(op, spec.name, spec.type);
  return op;
}

Op *Graph::append(Block &block, Op::Kind kind, std::string opName, std::vector<Operand> operands,
                  std::vector<NamedAttr> attrs, const std::vector<ResultSpec> &results) {
  return insert(block, block.ops_.end(), kind, std::move(opName), std::move(operands), std::move(attrs),
                results);
}

Op *Graph::insertBefore(Op *before, Op::Kind kind, std::string opName, std::vector<Operand> operands,
                        std::vector<NamedAttr> attrs, const std::vector<ResultSpec> &results) {
  Op *op = insert(*before->parent_, before->self_, kind, std::move(opName), std::move(operands),
                  std::move(attrs), results);
  op->state = before->state;
  return op;
}

Block &Graph::makeBody(Op *op) {
  if (!op->body_)
    op->body_ = std::make_unique<Block>(op);
  return *op->body_;
}

void Graph::replaceAllUses(Value *from, Value *to) {
  GO_ASSERT(from != to, "a value replaced by itself");
  std::vector<Op *> users = from->users_; // a copy: replaceUses edits the list
  for (Op *user : users)
    user->replaceUses(from, to);
}

void Graph::moveBefore(Op *op, Op *before) {
  Block &from = *op->parent_;
  Block &to = *before->parent_;
  to.ops_.splice(before->self_, from.ops_, op->self_);
  op->parent_ = &to;
}

void Graph::exchangeNames(Value *a, Value *b) {
  std::swap(a->name, b->name);
  names_->values[a->name].value = a;
  names_->values[b->name].value = b;
}

void Graph::dropValue(Value *value) {
  names_->values[value->name].value = nullptr; // names are never given twice: a log line stays unambiguous
  values_[value->slot_].reset();
}

void Graph::erase(Op *op) {
  for (const Value *result : op->results_)
    GO_ASSERT(!result->hasUses(), "erased an op whose result is used: " + result->name);
  if (op->body_)
    while (!op->body_->empty())
      erase(op->body_->ops_.back().get());
  op->unlink();
  op->operands_.clear();
  for (Value *value : op->results_)
    dropValue(value);
  op->parent_->ops_.erase(op->self_);
}

void Graph::eraseDeclaration(Value *value) {
  GO_ASSERT(!value->hasUses(), "erased a declaration that is used: " + value->name);
  std::erase(declarations_, value);
  std::erase_if(guards, [&](const Guard &guard) {
    bool found = false;
    visitValues(guard.operands, [&](const Operand &operand) { found |= operand.value == value; });
    return found;
  });
  dropValue(value);
}

void walk(const Block &block, const std::function<void(Op &)> &f) {
  for (Op *op : block.ops()) {
    f(*op);
    if (op->body())
      walk(*op->body(), f);
  }
}

} // namespace graphopt::ir
