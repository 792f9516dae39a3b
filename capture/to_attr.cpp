// The schema's type decides where the run-time value is ambiguous: dtypes, layouts and memory formats are all
// ints on the stack.
#include "capture/to_attr.h"

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

namespace graphopt::capture {
namespace {
using c10::TypeKind;
using ir::Attr;

Attr layoutWord(int64_t value) {
  switch (static_cast<c10::Layout>(value)) {
  case c10::Layout::Strided:
    return Attr::word("strided");
  case c10::Layout::Sparse:
    return Attr::word("sparse_coo");
  case c10::Layout::SparseCsr:
    return Attr::word("sparse_csr");
  case c10::Layout::SparseCsc:
    return Attr::word("sparse_csc");
  case c10::Layout::SparseBsr:
    return Attr::word("sparse_bsr");
  case c10::Layout::SparseBsc:
    return Attr::word("sparse_bsc");
  case c10::Layout::Mkldnn:
    return Attr::word("mkldnn");
  case c10::Layout::Jagged:
    return Attr::word("jagged");
  case c10::Layout::NumOptions:
    break;
  }
  return Attr::opaque("Layout");
}

Attr formatWord(int64_t value) {
  switch (static_cast<c10::MemoryFormat>(value)) {
  case c10::MemoryFormat::Contiguous:
    return Attr::word("contiguous");
  case c10::MemoryFormat::Preserve:
    return Attr::word("preserve");
  case c10::MemoryFormat::ChannelsLast:
    return Attr::word("channels_last");
  case c10::MemoryFormat::ChannelsLast3d:
    return Attr::word("channels_last_3d");
  case c10::MemoryFormat::NumOptions:
    break;
  }
  return Attr::opaque("MemoryFormat");
}

Attr listToAttr(const c10::IValue &value, const c10::Type *element) {
  std::vector<Attr> items;
  items.reserve(value.toListRef().size());
  for (const c10::IValue &item : value.toListRef())
    items.push_back(element ? toAttr(item, *element) : toAttr(item));
  return Attr::list(std::move(items));
}

Attr itemOf(const at::Tensor &flat, int64_t index) {
  if (c10::isComplexType(flat.scalar_type())) {
    auto value = flat.const_data_ptr<c10::complex<double>>()[index];
    return Attr::complex(value.real(), value.imag());
  }
  switch (flat.scalar_type()) {
  case at::kBool:
    return Attr::boolean(flat.const_data_ptr<bool>()[index]);
  case at::kDouble:
    return Attr::real(flat.const_data_ptr<double>()[index]);
  default:
    return Attr::integer(flat.const_data_ptr<int64_t>()[index]);
  }
}

/// The tensor on the CPU in C order, with the widest dtype of its kind.
at::Tensor widened(const at::Tensor &tensor) {
  c10::ScalarType type = tensor.scalar_type();
  c10::ScalarType wide = c10::isComplexType(type)    ? at::kComplexDouble
                         : c10::isFloatingType(type) ? at::kDouble
                         : type == at::kBool         ? at::kBool
                                                     : at::kLong;
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU, wide).contiguous();
}

Attr nested(const at::Tensor &flat, c10::IntArrayRef sizes, int64_t &next) {
  if (sizes.empty())
    return itemOf(flat, next++);
  std::vector<Attr> items;
  for (int64_t i = 0; i < sizes[0]; ++i)
    items.push_back(nested(flat, sizes.slice(1), next));
  return Attr::list(std::move(items));
}

} // namespace

ir::Device toDevice(const c10::Device &device) {
  return {c10::DeviceTypeName(device.type(), /*lower_case=*/true), device.index()};
}

Attr toAttr(const c10::IValue &value) {
  if (value.isNone())
    return Attr();
  if (value.isInt() || value.isSymInt())
    return Attr::integer(value.toInt());
  if (value.isDouble())
    return Attr::real(value.toDouble());
  if (value.isBool())
    return Attr::boolean(value.toBool());
  if (value.isString())
    return Attr::string(value.toStringRef());
  if (value.isDevice())
    return Attr::word(ir::toString(toDevice(value.toDevice())));
  if (value.isComplexDouble()) {
    auto number = value.toComplexDouble();
    return Attr::complex(number.real(), number.imag());
  }
  if (value.isList())
    return listToAttr(value, nullptr);
  return Attr::opaque(value.tagKind());
}

Attr toAttr(const c10::IValue &value, const c10::Type &type) {
  if (value.isNone())
    return Attr();
  switch (type.kind()) {
  case TypeKind::OptionalType:
    return toAttr(value, *type.castRaw<c10::OptionalType>()->getElementType());
  case TypeKind::ScalarTypeType:
    return Attr::word(std::string(ir::dtypeName(static_cast<c10::ScalarType>(value.toInt()))));
  case TypeKind::LayoutType:
    return layoutWord(value.toInt());
  case TypeKind::MemoryFormatType:
    return formatWord(value.toInt());
  case TypeKind::ListType:
    if (value.isList())
      return listToAttr(value, type.castRaw<c10::ListType>()->getElementType().get());
    return Attr::opaque(type.str());
  default:
    break; // an open set of kinds: the value says the rest
  }
  Attr attr = toAttr(value);
  return attr.kind() == Attr::Kind::Opaque ? Attr::opaque(type.str()) : attr;
}

Attr contentOf(const at::Tensor &tensor) {
  at::Tensor flat = widened(tensor);
  int64_t next = 0;
  return nested(flat, tensor.sizes(), next);
}

} // namespace graphopt::capture
