// The judgement is LibTorch's is_channels_last_strides (c10/core/MemoryFormat.h), by which kernels choose the
// order of their results; it falls for the usual order where both are the same.
#include "passes/channels_last.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

/// Dims from the innermost to the outermost: channels, positions from the last to the first, batch.
std::vector<size_t> innermostFirst(size_t rank) {
  std::vector<size_t> dims{1};
  for (size_t dim = rank - 1; dim > 1; --dim)
    dims.push_back(dim);
  dims.push_back(0);
  return dims;
}

bool areConstant(const std::vector<ir::Dim> &dims) {
  return std::ranges::all_of(dims, [](const ir::Dim &dim) { return dim.isConstant(); });
}

bool isChannelsLastByNumbers(const ir::Type &type) {
  const std::vector<ir::Dim> strides = type.stridesOrContiguous();
  if (strides[1].value() == 0)
    return false;
  int64_t reach = 0;
  for (const size_t dim : innermostFirst(type.rank())) {
    const int64_t size = type.sizes[dim].value(), stride = strides[dim].value();
    if (size == 0 || stride < reach || (dim == 0 && reach == strides[1].value()))
      return false;
    reach = stride * std::max<int64_t>(size, 1);
  }
  return true;
}

bool isOne(const ir::Dim &dim) { return dim.isConstant() && dim.value() == 1; }
bool isZero(const ir::Dim &dim) { return dim.isConstant() && dim.value() == 0; }

int64_t intOf(const ir::Op &op, std::string_view name, int64_t otherwise) {
  const ir::Attr *attr = op.attr(name);
  return attr && attr->isInt() && attr->asDim().isConstant() ? attr->asInt() : otherwise;
}

bool has(const ir::OpInfo &info, std::string_view argument) {
  return std::ranges::find(info.args, argument, &ir::ArgInfo::name) != info.args.end();
}

/// Its weight has the channels of the input in front.
bool isTransposed(const ir::Op &op, const ir::OpInfo &info) {
  const ir::Attr *said = op.attr("transposed");
  if (said)
    return said->kind() == ir::Attr::Kind::Bool && said->asBool();
  return has(info, "output_padding") && !has(info, "transposed");
}

bool hasManyChannels(const ir::Op &op, const ir::OpInfo &info, const ir::Type &weight) {
  if (!isTransposed(op, info))
    return !isOne(weight.sizes[1]);
  const ir::Dim &channels = weight.sizes[0];
  return !channels.isConstant() || channels.value() > intOf(op, "groups", 1);
}

} // namespace

bool isImage(const ir::Type &type) {
  return type.isTensor() && (type.rank() == 4 || type.rank() == 5) && !type.conj && !type.neg;
}

ir::Type withChannelsLast(ir::Type type) {
  std::vector<ir::Dim> strides(type.rank());
  ir::Dim next = 1;
  for (const size_t dim : innermostFirst(type.rank())) {
    strides[dim] = next;
    next = next * type.sizes[dim];
  }
  type.setStrides(std::move(strides));
  return type;
}

ir::Attr channelsLastWord(size_t rank) {
  return ir::Attr::word(rank == 4 ? "channels_last" : "channels_last_3d");
}

bool isChannelsLast(const ir::Type &type, const std::vector<ir::Sym> &syms) {
  if (!isImage(type) || !type.strides)
    return false;
  if (areConstant(type.sizes) && areConstant(*type.strides))
    return isChannelsLastByNumbers(type);
  return std::ranges::equal(*type.strides, withChannelsLast(type).stridesOrContiguous(),
                            [&](const auto &a, const auto &b) { return ir::provablyEqual(a, b, syms); });
}

bool orderMatters(const ir::Type &type) {
  const auto positions = type.sizes.begin() + 2;
  return !isOne(type.sizes[1]) && !std::all_of(positions, type.sizes.end(), isOne) &&
         std::ranges::none_of(type.sizes, isZero);
}

std::optional<Convolution> convolutionOf(const ir::Op &op, const ir::OpCatalog *catalog) {
  const ir::OpInfo *info = op.kind == ir::Op::Kind::Call && catalog ? catalog->find(op.name) : nullptr;
  if (!info || op.results().size() != 1 || info->operandIndex("weight") != size_t{1} ||
      !has(*info, "dilation") || !has(*info, "groups"))
    return std::nullopt;
  const ir::Operand &input = op.operands()[0], &weight = op.operands()[1];
  if (!input.isValue() || !weight.isValue() || !isImage(input.value->type) || !isImage(weight.value->type) ||
      input.value->type.rank() != weight.value->type.rank())
    return std::nullopt;
  return Convolution{input.value, weight.value, hasManyChannels(op, *info, weight.value->type)};
}

} // namespace graphopt::passes
