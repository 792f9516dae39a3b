// Constant folding of small integers: shape arithmetic that TorchScript does in 0-dim tensors, index tables,
// sizes.
//
// An operator is computed now when all it reads is known (constants, host values, which a guard pins) and its
// results are integers or bools of few elements. Floating point is never folded: the result would be this
// machine's, not the device's. A result that leaves the call stays computed, since the caller gets a tensor
// of his own each time.
#include "passes/pass_list.h"

#include "ir/alias.h"
#include "ir/effects.h"

#include <charconv>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <unordered_set>

namespace graphopt::passes {
namespace {

constexpr int64_t kMaxElements = 64; // a constant must be smaller

int64_t maxElements(const PassContext &context) {
  const auto given = context.options.find("max-elements");
  if (given == context.options.end())
    return kMaxElements;
  int64_t value = 0;
  const std::string &text = given->second;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 1)
    userError(fmt::format("fold's max-elements must be a positive integer, not '{}'", text));
  return value;
}

bool isSmallInteger(const ir::Type &type, int64_t limit) {
  using Kind = ir::Type::Kind;
  if (type.kind == Kind::Int || type.kind == Kind::Bool)
    return true;
  if (!type.isTensor() || (!ir::isInteger(type.dtype) && type.dtype != ir::DType::Bool))
    return false;
  const ir::Dim count = type.numel();
  return count.isConstant() && count.value() < limit && !type.conj && !type.neg;
}

/// The content of a constant or a host value; nothing when it is in a file or computed.
const ir::Attr *knownContent(const ir::Value *value) {
  const bool fixed = value->kind == ir::Value::Kind::Const || value->kind == ir::Value::Kind::HostVal;
  return fixed && !value->content.isNone() ? &value->content : nullptr;
}

class Folder {
public:
  Folder(ir::Graph &graph, const ir::OpCatalog &catalog, int64_t limit)
      : graph_(graph), catalog_(catalog), limit_(limit) {
    const ir::AliasInfo aliases(graph);
    if (const ir::Op *last = graph.returnOp())
      last->forEachValue([&](const ir::Operand &operand) {
        for (const ir::Value *value : aliases.family(operand.value))
          leaving_.insert(value);
      });
  }

  int64_t run() {
    int64_t folded = 0;
    for (ir::Op *op : graph_.body().ops())
      folded += fold(op);
    return folded;
  }

private:
  bool isCandidate(const ir::Op &op) const {
    if (op.kind != ir::Op::Kind::Call || op.results().empty() || !ir::isMergeable(op, &catalog_))
      return false;
    for (const ir::Value *value : op.results())
      if (!isSmallInteger(value->type, limit_) || value->type.strides || leaving_.contains(value))
        return false; // a constant is contiguous: an expanded or transposed one stays a view of it
    return true;
  }

  std::optional<std::vector<ir::Attr>> contentsOf(const ir::Op &op) const {
    std::vector<ir::Attr> contents;
    bool known = true;
    op.forEachValue([&](const ir::Operand &operand) {
      const ir::Attr *content = knownContent(operand.value);
      known &= content && isSmallInteger(operand.value->type, limit_);
      if (known)
        contents.push_back(*content);
    });
    if (!known)
      return std::nullopt;
    return contents;
  }

  bool fold(ir::Op *op) {
    if (!isCandidate(*op))
      return false;
    const auto contents = contentsOf(*op);
    if (!contents)
      return false;
    const auto results = catalog_.evaluate(*op, *contents);
    if (!results)
      return false;
    GO_ASSERT(results->size() == op->results().size(), "evaluation lost a result of " + op->name);
    for (size_t i = 0; i < results->size(); ++i)
      replaceByConstant(op->result(i), (*results)[i]);
    graph_.erase(op);
    return true;
  }

  void replaceByConstant(ir::Value *value, const ir::Attr &content) {
    ir::Value *constant = graph_.declare(ir::Value::Kind::Const, graph_.freshName(value->name), value->type);
    constant->content = content;
    graph_.replaceAllUses(value, constant);
  }

  ir::Graph &graph_;
  const ir::OpCatalog &catalog_;
  const int64_t limit_;
  std::unordered_set<const ir::Value *> leaving_; // membership only
};

} // namespace

Changed fold(ir::Graph &graph, PassContext &context) {
  const int64_t limit = maxElements(context);
  if (!context.catalog)
    return Changed::No; // nobody to ask for values
  const int64_t folded = Folder(graph, *context.catalog, limit).run();
  context.statistics["operators folded"] += folded;
  return Changed(folded > 0);
}

} // namespace graphopt::passes
