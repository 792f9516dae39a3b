// Graph, Op, Value: one straight-line program at one stage.
//
// A graph owns its values and operators; addresses stay valid until erased. Users of a value are kept true by
// the mutating members here, which are the only way to change operands. In the raw form an operator may write
// an operand (Mark::Write); everywhere else a value never changes after its definition.
#pragma once
#include "ir/attr.h"
#include "ir/type.h"

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace graphopt::ir {

class Block;
class Graph;
class Op;
struct Value;

enum class Stage { Captured, Lowered, Core, Fused, Planned };
enum class Form { Raw, Functional }; ///< of the captured stage; later stages are functional
std::string_view toString(Stage stage);
std::string_view toString(Form form);
std::optional<Stage> parseStage(std::string_view text);
std::optional<Form> parseForm(std::string_view text);

/// A place in a .gir text; line 0 means nowhere (made by a capture or a pass).
struct Loc {
  int line = 0;
  int column = 0;
  int length = 0;
};

/// What the result or the call does to an operand: nothing, a result may alias it (&), the op writes it
/// (&mut).
enum class Mark { None, Alias, Write };

/// One operand: a value, a missing optional tensor, a list of operands, or a literal (prims and guards). A
/// literal list is a List of literals and a literal none is None, so brackets and `none` mean one thing in
/// the text.
struct Operand {
  enum class Kind { None, Value, List, Literal };
  Kind kind = Kind::None;
  Mark mark = Mark::None;
  ir::Value *value = nullptr;
  std::vector<Operand> items;
  Attr literal;
  Loc loc;

  static Operand none() { return {}; }
  static Operand of(ir::Value *value, Mark mark = Mark::None);
  static Operand list(std::vector<Operand> items);
  static Operand lit(Attr literal);
  bool isValue() const { return kind == Kind::Value; }
  /// What lit() was given: a literal, none, or a list of these; nothing when a value is among them.
  std::optional<Attr> asAttr() const;
};

struct Value {
  /// Cotangent: of a joint graph, the gradient of one of its outputs.
  enum class Kind { Input, Param, Buffer, Outside, HostVal, Const, Cotangent, Result };
  Kind kind = Kind::Result;
  std::string name; // without '%'; unique in its graph
  Type type;
  Op *def = nullptr;       // Result only
  size_t resultIndex = 0;  // Result only
  Attr content;            // HostVal, and a Const given inline: the value, nested lists for a tensor
  std::string contentHash; // a Const kept in a file: contentHash() of it, which names the file
  Loc loc;

  bool isResult() const { return kind == Kind::Result; }
  bool isDeclared() const { return kind != Kind::Result; }
  /// The operators that use the value, once for each use; deterministic, in no particular order.
  const std::vector<Op *> &users() const { return users_; }
  bool hasUses() const { return !users_.empty(); }
  /// Its place in the graph's value table: the same in every run, so fit for ordered keys and hashes.
  size_t id() const { return slot_; }

private:
  std::vector<Op *> users_;
  std::vector<uint32_t> useIndex_; // for each user: which of that op's uses this is
  size_t slot_ = 0;
  friend class Op;
  friend class Graph;
};
std::string_view toString(Value::Kind kind); // the declaration's keyword; "" for results

/// The ambient state and module an operator was called under; interned per graph.
struct OpState {
  std::string scope;              // "layer1.0.conv1"; empty at the top
  bool scopeGuessed = false;      // printed with '~': inherited, not known
  std::vector<NamedAttr> ambient; // only what differs from the default: amp=bf16, grad=off, inference=on
  bool operator==(const OpState &) const = default;
};

class Op {
public:
  /// Vjp: gradients by autograd itself, of what the body makes; its yield gives three lists: outputs, a
  /// cotangent for each, and the values whose gradients are the results.
  /// Redraw: draws random numbers as they were drawn before, from the generator's state of then.
  /// What the bodies of both do to generators is undone at their ends.
  enum class Kind { Call, Group, Update, Vjp, Redraw, Border, Writeback, Return, Yield };
  const Kind kind;
  /// Call: "aten.add_.Tensor", "prim.add", "mylib::foo.overload". Group: its name. Border: what happened
  /// (read).
  std::string name;
  std::vector<NamedAttr> attrs;
  std::string groupKind; // Group: point, rows, cols ...
  int number = 0;        // Border
  uint32_t state = 0;    // index into Graph::states
  Loc loc;

  bool isCall(std::string_view n) const { return kind == Kind::Call && name == n; }
  bool isRegion() const {
    return kind == Kind::Group || kind == Kind::Update || kind == Kind::Vjp || kind == Kind::Redraw;
  }
  bool computes() const {
    return kind == Kind::Call || isRegion();
  } ///< else it ends or marks, and runs nothing
  const std::vector<Operand> &operands() const { return operands_; }
  const std::vector<Value *> &results() const { return results_; }
  Value *result(size_t i = 0) const { return results_[i]; }
  Block *body() const { return body_.get(); }    ///< of a region
  Block *parent() const { return parent_; }      ///< the block it stands in
  const Attr *attr(std::string_view name) const; ///< nullptr when absent
  void setAttr(std::string_view name, Attr value);
  void removeAttr(std::string_view name);

  void setOperands(std::vector<Operand> operands);
  void setOperand(size_t i, Operand operand);
  /// Replaces every use of `from` in this op's operands by `to`; marks stay.
  void replaceUses(Value *from, Value *to);

  /// Calls f(const Operand &) for each value operand, lists included, in order.
  void forEachValue(const std::function<void(const Operand &)> &f) const;
  bool usesValue(const Value *value) const;
  bool writesAny() const; ///< some operand carries &mut
  bool writes(const Value *value) const;

  Op(const Op &) = delete;
  Op &operator=(const Op &) = delete;
  ~Op();

private:
  friend class Graph;
  friend class Block;
  explicit Op(Kind kind) : kind(kind) {}
  void link();
  void unlink();
  std::vector<Operand> operands_;
  std::vector<size_t> useSlots_; // for each value operand, in order: its place in the value's list of users
  std::vector<Value *> results_;
  std::unique_ptr<Block> body_;
  Block *parent_ = nullptr;
  std::list<std::unique_ptr<Op>>::iterator self_;
};

/// A list of operators in order. Iterating while erasing the current op: advance the iterator first.
class Block {
public:
  using List = std::list<std::unique_ptr<Op>>;
  explicit Block(Op *owner = nullptr) : owner_(owner) {}
  Op *owner() const { return owner_; } ///< the Group or Update op; nullptr for a graph's body
  bool empty() const { return ops_.empty(); }
  size_t size() const { return ops_.size(); }
  /// A snapshot of the ops in order: safe to erase or insert while walking it.
  std::vector<Op *> ops() const;
  List::const_iterator begin() const { return ops_.begin(); }
  List::const_iterator end() const { return ops_.end(); }
  Op *terminator() const; ///< the last op if it is Return or Yield

private:
  friend class Graph;
  Op *owner_;
  List ops_;
};

/// `guard #3 meta(%x) == f32[2, 16]`: a fact checked at each call, in order.
struct Guard {
  enum class Cmp { Eq, Ne, Le, Lt, Ge, Gt, In };
  int number = 0;
  std::string kind; // a row of guards.def: meta, grad_mode, size ...
  std::vector<Operand> operands;
  Cmp cmp = Cmp::Eq;
  std::variant<Attr, Type> expected;
  Loc loc;
};
std::string_view toString(Guard::Cmp cmp);

class Graph {
public:
  explicit Graph(std::string name = "main");
  ~Graph();
  Graph(Graph &&) noexcept;
  Graph &operator=(Graph &&) noexcept;

  std::string name;
  int version = 1;
  Stage stage = Stage::Captured;
  Form form = Form::Raw;
  Device device;
  std::vector<NamedAttr> settings; // other words of the header: deterministic=off matmul=highest
  std::vector<Sym> syms;
  std::vector<Guard> guards;
  std::vector<OpState> states; // [0] is the empty state
  std::string file;            // the .gir file it was parsed from, for diagnostics

  Block &body() { return *body_; }
  const Block &body() const { return *body_; }
  const std::vector<Value *> &declarations() const { return declarations_; } ///< in order of declaration
  std::vector<Value *> declared(Value::Kind kind) const;
  Op *returnOp() const { return body_->terminator(); } ///< nullptr in an unfinished graph
  Value *find(std::string_view valueName) const;       ///< nullptr if there is none
  /// The index of the state in `states`, added when it is new.
  uint32_t intern(const OpState &state);
  /// Whether the operator's state says opaque=on: below the captured stage, one that was not taken apart.
  bool isOpaque(const Op &op) const;
  const Sym *findSym(std::string_view symName) const;

  // ---- building
  /// `base`, or `base.1`, `base.2` ... : a name no value of this graph has had.
  std::string freshName(std::string_view base);
  Value *declare(Value::Kind kind, const std::string &name, Type type);
  /// Appends to `block`, or inserts before `before` when given. Result names are made fresh.
  struct ResultSpec {
    std::string name;
    Type type;
  };
  Op *append(Block &block, Op::Kind kind, std::string opName, std::vector<Operand> operands,
             std::vector<NamedAttr> attrs = {}, const std::vector<ResultSpec> &results = {});
  Op *insertBefore(Op *before, Op::Kind kind, std::string opName, std::vector<Operand> operands,
                   std::vector<NamedAttr> attrs = {}, const std::vector<ResultSpec> &results = {});
  /// The body of a Group or Update op, made on first use.
  Block &makeBody(Op *op);
  Value *addResult(Op *op, const std::string &name, Type type);

  // ---- changing
  void replaceAllUses(Value *from, Value *to);
  void moveBefore(Op *op, Op *before); ///< both in any blocks of this graph
  void erase(Op *op);                  ///< its results must have no uses left
  void exchangeNames(Value *a, Value *b);
  void eraseDeclaration(Value *value); ///< must have no uses left; guards that name it are erased too
  Graph clone() const;

private:
  Value *newValue(const std::string &name, Type type);
  Op *insert(Block &block, Block::List::iterator at, Op::Kind kind, std::string opName,
             std::vector<Operand> operands, std::vector<NamedAttr> attrs,
             const std::vector<ResultSpec> &results);
  void dropValue(Value *value);
  std::vector<std::unique_ptr<Value>> values_; // freed slots hold nullptr
  std::vector<Value *> declarations_;
  std::unique_ptr<Block> body_;
  struct Names; // name -> value, and how often a base was used
  std::unique_ptr<Names> names_;
};

/// Calls f(Op &) for every op, bodies included (a Group or Update before its body), in text order.
void walk(const Block &block, const std::function<void(Op &)> &f);

} // namespace graphopt::ir
