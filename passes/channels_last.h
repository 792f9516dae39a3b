// Images: tensors of 4 or 5 dims (batch, channels, positions), and their memory with the channels last.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <optional>
#include <vector>

namespace graphopt::passes {

/// A tensor of 4 or 5 dims: numbers, or a mask or indices that belong to some.
bool isImage(const ir::Type &type);

/// The type with its channels last and nothing between: what aten.contiguous makes with that memory format.
ir::Type withChannelsLast(ir::Type type);
/// The word for it: channels_last, or channels_last_3d.
ir::Attr channelsLastWord(size_t rank);

/// Whether the strides say that the channels are last, as LibTorch's operators judge them. Gaps are allowed.
bool isChannelsLast(const ir::Type &type, const std::vector<ir::Sym> &syms);

/// False where both orders are one in memory: one channel, or one position.
bool orderMatters(const ir::Type &type);

/// What a convolution asks of the memory order.
struct Convolution {
  ir::Value *input = nullptr, *weight = nullptr;
  bool hasManyChannels =
      false; ///< more than one channel a group: what library kernels for channels last are for
};

/// Nothing for other operators, for images of other ranks, and for graphs without a catalog. By the schema:
/// what has a weight, dilations and groups convolves.
std::optional<Convolution> convolutionOf(const ir::Op &op, const ir::OpCatalog *catalog);

} // namespace graphopt::passes
