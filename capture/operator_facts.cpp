// Facts come from schema and tags; the short lists below are what those do not say. An operator that returns
// plain values to the host and is in no list counts as a read of data: a false border is an inconvenience, a
// missed one a wrong answer.
#include "capture/operator_facts.h"

#include "capture/to_attr.h"
#include "ir/op_catalog.h"
#include "ir/op_table.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace graphopt::capture {
namespace {

/// Operators that answer from metadata: sizes, strides, dtypes, flags. Guards on metadata cover them, so they
/// are not recorded.
constexpr std::array<std::string_view, 41> kMetadata = {"size",
                                                        "stride",
                                                        "dim",
                                                        "ndimension",
                                                        "numel",
                                                        "nelement",
                                                        "storage_offset",
                                                        "sym_size",
                                                        "sym_stride",
                                                        "sym_numel",
                                                        "sym_storage_offset",
                                                        "sym_is_contiguous",
                                                        "is_contiguous",
                                                        "is_strides_like",
                                                        "is_non_overlapping_and_dense",
                                                        "is_floating_point",
                                                        "is_complex",
                                                        "is_signed",
                                                        "is_conj",
                                                        "is_neg",
                                                        "_is_zerotensor",
                                                        "is_inference",
                                                        "is_leaf",
                                                        "is_pinned",
                                                        "is_same_size",
                                                        "is_set_to",
                                                        "is_coalesced",
                                                        "result_type",
                                                        "can_cast",
                                                        "promote_types",
                                                        "_version",
                                                        "output_nr",
                                                        "qscheme",
                                                        "sparse_dim",
                                                        "dense_dim",
                                                        "_nnpack_available",
                                                        "cudnn_is_acceptable",
                                                        "_use_cudnn_ctc_loss",
                                                        "_use_cudnn_rnn_flatten_weight",
                                                        "_debug_has_internal_overlap",
                                                        "get_device"};

/// Composites whose result sizes or views follow from an operand's contents, and which have no tag that says
/// so.
constexpr std::array<std::string_view, 9> kSizesFromData = {"aten.one_hot",
                                                            "aten.tensor_split.tensor_indices_or_sections",
                                                            "aten.repeat_interleave.self_Tensor",
                                                            "aten.narrow.Tensor",
                                                            "aten.ctc_loss.Tensor",
                                                            "aten.combinations",
                                                            "aten.where",
                                                            "aten._pack_padded_sequence",
                                                            "aten._pad_packed_sequence"};

struct InplaceView {
  std::string_view inplace, view;
};
/// In-place views whose view is not simply the name without the underscore.
constexpr std::array<InplaceView, 1> kRenamedViews = {{{"aten.transpose_", "aten.transpose.int"}}};
/// Changes of metadata that no view expresses.
constexpr std::array<std::string_view, 5> kNoView = {"resize_", "resize_as_", "resize_as_sparse_", "set_",
                                                     "rename_"};

template <class Row, size_t N> bool contains(const std::array<Row, N> &rows, std::string_view name) {
  return std::find(rows.begin(), rows.end(), name) != rows.end();
}

ArgumentFacts::Role roleOf(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return ArgumentFacts::Role::Tensor;
  case c10::TypeKind::OptionalType:
    return roleOf(*type.castRaw<c10::OptionalType>()->getElementType());
  case c10::TypeKind::ListType:
    return roleOf(*type.castRaw<c10::ListType>()->getElementType()) == ArgumentFacts::Role::Attr
               ? ArgumentFacts::Role::Attr
               : ArgumentFacts::Role::TensorList;
  default:
    return ArgumentFacts::Role::Attr; // an open set of kinds
  }
}

bool isNumberType(const c10::Type &type) {
  if (type.kind() == c10::TypeKind::OptionalType)
    return isNumberType(*type.castRaw<c10::OptionalType>()->getElementType());
  if (type.kind() == c10::TypeKind::ListType)
    return isNumberType(*type.castRaw<c10::ListType>()->getElementType());
  return type.kind() == c10::TypeKind::NumberType;
}

/// By the real type: a dtype is an int elsewhere.
bool isIntegerType(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::OptionalType:
    return isIntegerType(*type.castRaw<c10::OptionalType>()->getElementType());
  case c10::TypeKind::ListType:
    return isIntegerType(*type.castRaw<c10::ListType>()->getElementType());
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::SymBoolType:
  case c10::TypeKind::NumberType:
    return true;
  default:
    return false; // an open set of kinds
  }
}

ArgumentFacts argumentFacts(const c10::Argument &argument) {
  ArgumentFacts facts;
  facts.role = roleOf(*argument.type());
  facts.name = argument.name();
  facts.type = argument.real_type();
  facts.isNumber = isNumberType(*argument.type());
  facts.isInteger = isIntegerType(*argument.real_type());
  if (const c10::AliasInfo *alias = argument.alias_info()) {
    facts.isWritten = alias->isWrite();
    facts.isAliased = !alias->isWrite();
  }
  if (argument.default_value() && facts.role == ArgumentFacts::Role::Attr)
    facts.defaultValue = toAttr(*argument.default_value(), *facts.type);
  return facts;
}

std::string viewNameOf(const c10::OperatorHandle &op, const OperatorFacts &facts) {
  if (!op.hasTag(at::Tag::inplace_view) || contains(kNoView, facts.base) || !facts.base.ends_with('_'))
    return "";
  for (const InplaceView &row : kRenamedViews)
    if (row.inplace == facts.name)
      return std::string(row.view);
  ir::OpName name = ir::splitOpName(facts.name);
  name.base.pop_back();
  return ir::joinOpName(name);
}

/// Index operators carry the tag for their boolean masks; with integer indices the sizes are known.
bool isIndex(std::string_view base) { return base.starts_with("index") || base.starts_with("_unsafe_index"); }

void addTags(const c10::OperatorHandle &op, OperatorFacts &facts) {
  bool plainResult = facts.returns > 0 && !facts.hasTensorResult;
  bool isAboutTensors = facts.hasTensorArgument || facts.hasTensorResult;
  facts.isMetadata = (facts.name.starts_with("aten.") && contains(kMetadata, facts.base)) ||
                     (plainResult && !isAboutTensors) || facts.name.starts_with("profiler::");
  facts.readsData = !facts.isMetadata && facts.hasTensorArgument && plainResult;
  facts.sizesFromData = contains(kSizesFromData, facts.name) ||
                        (op.hasTag(at::Tag::dynamic_output_shape) && !isIndex(facts.base));
  facts.isRandom = op.hasTag(at::Tag::nondeterministic_seeded);
  facts.isUninitialized = facts.base.starts_with("empty") || facts.base.starts_with("new_empty");
  facts.viewName = viewNameOf(op, facts);
  facts.changesGeometry = op.hasTag(at::Tag::inplace_view) || contains(kNoView, facts.base);
  const ir::AtenRow *row = ir::findAten(facts.name);
  facts.hidesWrites = row && !std::string_view(row->writes).empty();
  facts.isTrusted = facts.name.starts_with("aten.") || facts.name.starts_with("prims.") ||
                    facts.name.starts_with("profiler.");
  facts.isComposite =
      !facts.isTrusted && op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  facts.isOpaque = !facts.isTrusted && !facts.isComposite && !op.hasTag(at::Tag::pt2_compliant_tag);
}

/// Operators whose result sizes follow from a float, or that may return their argument because of one.
constexpr std::array<std::string_view, 8> kSizesFromFloats = {
    "arange", "range", "linspace", "logspace", "histc", "interpolate", "bartlett_window", "to"};

void markLateFloats(OperatorFacts &facts) {
  bool isFill = facts.base == "full"; // the kind of its number decides the dtype, and is compared
  if (!(facts.hasTensorArgument || isFill) || !facts.hasTensorResult ||
      contains(kSizesFromFloats, facts.base) || facts.base.find("upsample") != std::string::npos)
    return;
  for (ArgumentFacts &argument : facts.arguments) {
    const c10::Type *type = argument.type.get();
    if (type->kind() == c10::TypeKind::OptionalType)
      type = type->castRaw<c10::OptionalType>()->getElementType().get();
    argument.bindsLate =
        type->kind() == c10::TypeKind::FloatType || type->kind() == c10::TypeKind::NumberType;
  }
}

OperatorFacts makeFacts(const c10::OperatorHandle &op) {
  const c10::FunctionSchema &schema = op.schema();
  OperatorFacts facts;
  size_t colons = schema.name().find("::");
  std::string space = schema.name().substr(0, colons);
  facts.base = schema.name().substr(colons + 2);
  facts.name = ir::joinOpName({space, facts.base, schema.overload_name()});
  facts.returns = schema.returns().size();
  for (const c10::Argument &argument : schema.arguments()) {
    facts.arguments.push_back(argumentFacts(argument));
    facts.hasTensorArgument |= facts.arguments.back().role != ArgumentFacts::Role::Attr;
    facts.isWrite |= facts.arguments.back().isWritten;
  }
  for (const c10::Argument &result : schema.returns()) {
    bool isTensor = roleOf(*result.type()) != ArgumentFacts::Role::Attr;
    facts.hasTensorResult |= isTensor;
    facts.hasPlainResult |= !isTensor;
    facts.returnsList.push_back(result.type()->kind() == c10::TypeKind::ListType);
  }
  addTags(op, facts);
  markLateFloats(facts);
  return facts;
}

/// A word of aten.def's conditions that names an argument. As ir::conditionHolds() has it: what is not known
/// holds.
bool wordHolds(std::string_view word, const OperatorFacts &facts, const c10::IValue *arguments) {
  bool isUnsure = !word.ends_with('?');
  if (!isUnsure)
    word.remove_suffix(1);
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    if (facts.arguments[i].name != word)
      continue;
    const c10::IValue &value = arguments[i];
    if (value.isNone())
      return isUnsure;
    return value.isBool() ? value.toBool() : !value.isDouble() || value.toDouble() != 0;
  }
  return true;
}

const OperatorFacts &sharedFacts(const c10::OperatorHandle &op) {
  static std::mutex mutex;
  static auto &all = *new std::unordered_map<const void *, std::unique_ptr<OperatorFacts>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<OperatorFacts> &facts = all[&op.operator_name()];
  if (!facts)
    facts = std::make_unique<OperatorFacts>(makeFacts(op));
  return *facts;
}

} // namespace

bool draws(const OperatorFacts &facts, const c10::IValue *arguments) {
  const ir::AtenRow *row = facts.isRandom ? ir::findAten(facts.name) : nullptr;
  if (!row || !(row->effects & ir::kRandom))
    return facts.isRandom;
  for (std::string_view rest = row->when; !rest.empty();) {
    size_t end = std::min(rest.find(' '), rest.size());
    if (!wordHolds(rest.substr(0, end), facts, arguments))
      return false;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

// canDispatchToMaskedFill in LibTorch's TensorAdvancedIndexingUtils.h.
bool fillsThroughMask(const OperatorFacts &facts, const c10::IValue *arguments) {
  static constexpr std::array<std::string_view, 4> kPuts = {"index_put", "index_put_", "_index_put_impl",
                                                            "_index_put_impl_"};
  if (!contains(kPuts, facts.base) || arguments[3].toBool()) // accumulates
    return false;
  const at::Tensor &self = arguments[0].toTensor(), &value = arguments[2].toTensor();
  size_t masks = 0, others = 0;
  for (const c10::IValue &item : arguments[1].toListRef()) {
    const bool isGiven = item.isTensor() && item.toTensor().defined();
    const bool isMask =
        isGiven && item.toTensor().scalar_type() == at::kBool && item.toTensor().device() == self.device();
    masks += isMask;
    others += isGiven && !isMask;
  }
  return masks == 1 && others == 0 && value.numel() == 1 && value.device().is_cpu();
}

const OperatorFacts &factsOf(const c10::OperatorHandle &op) {
  // The operator's name lives as long as the operator, at one address. Facts are kept for ever: segments that
  // one thread recorded are matched by others.
  static thread_local ska::flat_hash_map<const void *, const OperatorFacts *> seen;
  const OperatorFacts *&facts = seen[&op.operator_name()];
  if (!facts)
    facts = &sharedFacts(op);
  return *facts;
}

} // namespace graphopt::capture
