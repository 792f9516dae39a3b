// What a pass may ask about dispatcher operators without knowing torch: schemas, aliasing, tags.
//
// The interface lives here; runtime/ implements it with LibTorch's dispatcher and driver/ hands it in. A
// text-only run may have no catalog: then the marks in the text are trusted and nothing else is known.
#pragma once
#include "ir/attr.h"
#include "ir/graph.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graphopt::ir {

/// "aten.add.Tensor" <-> namespace "aten", base "add", overload "Tensor". Operators outside aten and prim
/// print as "mylib::foo.overload"; the default overload has no suffix.
struct OpName {
  std::string ns, base, overload;
  bool operator==(const OpName &) const = default;
};
OpName splitOpName(std::string_view irName);
std::string joinOpName(const OpName &name);

struct ArgInfo {
  enum class Role { Tensor, TensorList, Attr }; // optional tensors are Tensor, Tensor?[] is TensorList
  std::string name;
  std::string type; // as the schema prints it: "Tensor", "int[2]", "ScalarType?"
  Role role = Role::Attr;
  bool optional = false;
  bool written = false; // (a!)
  bool out = false;     // an out= argument
  bool kwargOnly = false;
  std::string aliasSet;     // "a" for Tensor(a), "" for none
  std::optional<Attr> dflt; // the default, when it has one
};

struct ReturnInfo {
  std::string type;
  std::string aliasSet;
  bool isTensor = false;
  bool isTensorList = false;
};

struct OpInfo {
  std::string name; // IR name
  std::vector<ArgInfo> args;
  std::vector<ReturnInfo> returns;
  bool random = false;        // draws from a generator (tag nondeterministic_seeded)
  bool dataDependent = false; // the host sees data (tags data_dependent_output, dynamic_output_shape)
  bool metadataOnly = false;  // changes sizes or strides of an argument in place (tag inplace_view)
  bool pointwise = false;     // tag pointwise
  bool composite = false;     // made of others, above autograd (CompositeImplicitAutograd and no own kernel)

  /// The position of the argument among the operands (roles Tensor and TensorList), or nothing for an
  /// attribute.
  std::optional<size_t> operandIndex(std::string_view argName) const;
};

class OpCatalog {
public:
  virtual ~OpCatalog() = default;
  /// nullptr when the dispatcher has no such operator. The pointer stays valid.
  virtual const OpInfo *find(std::string_view irName) const = 0;
  /// Runs `op` on small integer or bool tensors given by content (one Attr an operand value, in order of
  /// forEachValue) and returns the contents of its results; nothing if it cannot.
  virtual std::optional<std::vector<Attr>> evaluate(const Op &op,
                                                    const std::vector<Attr> &contents) const = 0;
};

} // namespace graphopt::ir
