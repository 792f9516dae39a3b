// Which writes functional form can say. The others are refused by a user error that names the operator: a
// wrong answer is never the price of a missing case.
#pragma once
#include "ir/alias.h"
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace graphopt::passes {

/// The values an op writes, once each, in operand order.
std::vector<ir::Value *> writtenValues(const ir::Op &op);

class WriteRules {
public:
  /// Reads the raw graph as it is before the first change.
  WriteRules(const ir::Graph &graph, const ir::AliasInfo &aliases, const ir::OpCatalog *catalog);
  /// Throws unless the write can be an update of its bases. `op` still has its raw operands.
  void check(const ir::Op &op) const;

private:
  void checkOperator(const ir::Op &op) const;
  void checkBase(const ir::Op &op, const ir::Value *base) const;
  void checkFamily(const ir::Op &op, const ir::Value *written) const;
  void checkMember(const ir::Op &op, const ir::Value *written, const ir::Value *member) const;
  bool livesAcross(const ir::Value *value, const ir::Op &op) const;
  [[noreturn]] void refuse(const ir::Op &op, const std::string &why) const;

  const ir::Graph &graph_;
  const ir::AliasInfo &aliases_;
  const ir::OpCatalog *catalog_;
  std::unordered_map<const ir::Op *, size_t> position_;   // in the raw graph; looked up only
  std::unordered_map<const ir::Value *, size_t> lastUse_; // position of the last op that uses it
};

} // namespace graphopt::passes
