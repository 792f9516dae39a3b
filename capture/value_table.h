// Which value of the trace a tensor is. Never an address alone: weak references keep the addresses in the
// table unique, and a tensor that is known by address must still have the storage and geometry it had.
#pragma once
#include "capture/trace.h"

#include <c10/util/flat_hash_map.h>

namespace graphopt::capture {

class ValueTable {
public:
  explicit ValueTable(Trace &trace);

  /// An argument or a parameter, before the program runs. The same tensor again gives the value it has.
  ValueId declare(ir::Value::Kind kind, const std::string &name, const at::Tensor &tensor);
  /// The value of an operator's operand; a tensor never seen before is classified and becomes a declared
  /// value.
  ValueId use(const at::Tensor &tensor);
  /// The value of a tensor that the call returns.
  ValueId lookUp(const at::Tensor &tensor) { return use(tensor); }
  /// A new value for an operator's result; joins the family of its storage. The tensor is that value from now
  /// on.
  ValueId addResult(const at::Tensor &tensor, int32_t call);
  /// The family of the tensor's storage, if any value has it.
  FamilyId familyOf(const at::Tensor &tensor) const;
  /// A family whose memory the host filled behind the dispatcher: its base becomes a const with the contents
  /// it has now.
  void freezeContents(FamilyId family, const at::Tensor &member);

  /// What was odd about the tensors seen since the last call; for a border.
  std::string takeRemark() { return std::exchange(remark_, {}); }

private:
  struct Known {
    ValueId value;
    WeakTensor weak; // keeps the address unique
  };
  struct KnownStorage {
    FamilyId family;
    c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  };
  ValueId add(ir::Value::Kind kind, const at::Tensor &tensor);
  void bind(const at::Tensor &tensor, ValueId value);
  FamilyId join(const at::Tensor &tensor, ValueId value);
  bool isStill(ValueId value, const at::Tensor &tensor) const;
  ValueId identify(const at::Tensor &tensor);
  ValueId aliasOf(FamilyId family, const at::Tensor &tensor);
  ValueId unrecordedView(ValueId base, const at::Tensor &tensor, bool sameGeometry);
  ValueId firstSeen(const at::Tensor &tensor);
  ValueId appendView(const char *name, ValueId operand, std::vector<ir::NamedAttr> attrs,
                     const at::Tensor &tensor);

  Trace &trace_;
  ska::flat_hash_map<const c10::TensorImpl *, Known> tensors_;
  ska::flat_hash_map<const c10::StorageImpl *, KnownStorage> storages_;
  std::string remark_;
};

/// A copy that keeps sizes and strides, outside of autograd, inference mode and the recording.
at::Tensor detachedCopy(const at::Tensor &tensor);

} // namespace graphopt::capture
