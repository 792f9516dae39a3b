// What a recording writes down while the program runs: plain rows, turned into a graph afterwards
// (graph_builder.h).
//
// Two steps, because much is known only at the end: whether a host-made tensor was written later, which
// operator was its module's last, which declared values share memory with a written one.
#pragma once
#include "capture/capture.h"
#include "capture/operator_facts.h"
#include "ir/graph.h"

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <string_view>
#include <vector>

namespace graphopt::capture {

using ValueId = int32_t;
using FamilyId = int32_t;
inline constexpr int32_t kNone = -1;

/// One value: a handle on memory, as the program's tensors are. Values of one family share a storage.
struct TraceValue {
  ir::Value::Kind kind = ir::Value::Kind::Result;
  std::string name; // declared values; results are named at the end
  ir::Type type;    // with its device always given
  FamilyId family = kNone;
  int32_t definedBy = kNone;      // results: the call
  int64_t offset = 0;             // storage offset, in elements
  at::Tensor held;                // params and buffers: the tensor; consts and hostvals: a copy
  std::optional<WeakTensor> weak; // the tensor it was first seen as
  bool isHostMemory = false;      // a const over memory that no PyTorch allocator owns
  bool requiresGrad = false;
};

/// A storage: all values that share it, in order of appearance.
struct TraceFamily {
  std::vector<ValueId> values;
  bool isUninitialized = false;   // made by empty(); no operator has written it yet
  bool isWrittenWithGrad = false; // written while gradients were on
  bool hasSiblings = false;       // several results of one operator, which no view chain connects
  ValueId base() const { return values.front(); }
};

struct TraceOperand {
  ValueId value = kNone; // none, unless isList
  ir::Mark mark = ir::Mark::None;
  bool isList = false;
  std::vector<TraceOperand> items;
};

/// The thread's state at a call, absolute.
struct AmbientState {
  bool grad = true;
  bool inference = false;
  bool autocast = false; // of the graph's device
  c10::ScalarType autocastDtype = c10::ScalarType::Undefined;
  bool autocastCache = true; // casts of weights are kept
  bool operator==(const AmbientState &) const = default;
};

struct TraceCall {
  const OperatorFacts *facts = nullptr; // nullptr: a border alone
  std::string_view name;                // IR name; differs from the facts' for in-place views
  std::vector<TraceOperand> operands;
  std::vector<ir::NamedAttr> attrs;
  std::vector<ValueId> results;
  std::vector<FamilyId> writes; // families whose contents the schema says change
  AmbientState ambient;
  int32_t scope = 0;           // into Trace::scopes
  bool hasTensorResult = true; // else the host got plain numbers
  bool isErased = false;
  bool isSynthetic = false; // not called: what an alias made without an operator amounts to
  std::string border;       // why the graph must not be trusted past this call; empty: no such reason
};

struct TraceScope {
  std::string path;
  bool isGuessed = false;
  bool operator==(const TraceScope &) const = default;
};

struct Trace {
  std::vector<TraceValue> values;
  std::vector<TraceFamily> families;
  std::vector<TraceCall> calls;
  std::vector<TraceScope> scopes{1}; // [0] is the top
};

} // namespace graphopt::capture
