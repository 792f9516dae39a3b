// What the recorder needs to know about an operator, worked out once from its schema and tags.
#pragma once
#include "ir/attr.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>

#include <string>
#include <vector>

namespace graphopt::capture {

struct ArgumentFacts {
  enum class Role { Tensor, TensorList, Attr };
  Role role = Role::Attr;
  std::string name;
  c10::TypePtr type; // the real type: ScalarType, not int
  bool isWritten = false;
  bool isAliased = false; // (a): the schema says that a result may be a view of it
  bool bindsLate = false; // a float whose value decides nothing but the numbers computed
  bool isNumber = false;  // a Scalar: an int, a float, a bool or a complex number
  bool isInteger = false; // an int, a bool, a Scalar, or a list of them: no dtype, layout or the like
  std::optional<ir::Attr> defaultValue;
};

struct OperatorFacts {
  std::string name; // "aten.add.Tensor"
  std::string base; // "add"
  std::vector<ArgumentFacts> arguments;
  size_t returns = 0;
  std::vector<bool> returnsList; // one a return
  bool hasTensorResult = false;
  bool hasPlainResult = false; // numbers beside or instead of tensors
  bool hasTensorArgument = false;
  bool isMetadata = false;    // the host asks for sizes, dtypes, flags: nothing to record
  bool readsData = false;     // the host sees contents (item, equal)
  bool sizesFromData = false; // the results' sizes depend on contents (nonzero)
  bool isRandom = false;
  bool isUninitialized = false; // makes memory without contents (empty)
  bool changesGeometry = false; // of its argument, in place (resize_, transpose_)
  bool isWrite = false;         // some argument is written
  bool hidesWrites = false;     // aten.def says that it may write what its schema does not name
  bool isTrusted = false;       // of a namespace whose schemas say what is written
  bool isComposite = false;     // of another one, and made of operators that the dispatcher sees
  bool isOpaque = false;        // of another one, without the tag that promises the same
  std::string viewName; // of an in-place view (transpose_): the view it stands for ("aten.transpose.int")
};

/// Whether a call with these arguments, in schema order, draws random numbers: operators that may draw do not
/// where they are told not to, as dropout is outside of training.
bool draws(const OperatorFacts &facts, const c10::IValue *arguments);

/// Whether a call with these arguments puts one number that lies on the CPU through one mask: LibTorch then
/// fills where the mask is set, and nothing follows from how much of it is.
bool fillsThroughMask(const OperatorFacts &facts, const c10::IValue *arguments);

/// The facts of an operator; the reference stays valid. Cached.
const OperatorFacts &factsOf(const c10::OperatorHandle &op);

} // namespace graphopt::capture
