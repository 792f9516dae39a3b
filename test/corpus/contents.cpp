// Nested values keep their structure; only tensors change.
#include "contents.h"

#include "capture/capture.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <map>

namespace graphopt::corpus {
namespace {

using at::Tensor;
using Values = std::vector<c10::IValue>;

Tensor freshLike(const Tensor &given, const at::Generator &generator) {
  Tensor fresh = given.detach().clone();
  if (fresh.numel() == 0)
    return fresh;
  if (fresh.is_floating_point()) {
    double deviation = fresh.numel() > 1 ? fresh.std().item().toDouble() : 1.0;
    return fresh.normal_(fresh.mean().item().toDouble(), deviation, generator);
  }
  if (fresh.scalar_type() == at::kBool)
    return fresh.bernoulli_(0.5, generator);
  const auto low = fresh.min().item().toLong(), high = fresh.max().item().toLong();
  return fresh.random_(low, high + 1, generator);
}

template <class Change> Values changed(const Values &given, const Change &change) {
  Values values;
  for (const c10::IValue &value : given) {
    std::vector<Tensor> leaves;
    capture::Structure structure = capture::flatten(value, leaves);
    for (Tensor &leaf : leaves)
      leaf = change(leaf);
    values.push_back(capture::unflatten(structure, leaves));
  }
  return values;
}

} // namespace

Values inOwnMemory(const Values &given) {
  return changed(given, [](const Tensor &leaf) { return leaf.clone(); });
}

Values freshContents(const Values &given, uint64_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return changed(given, [&](const Tensor &leaf) { return freshLike(leaf, generator); });
}

std::vector<Tensor> copiesWithMemory(const std::vector<Tensor> &tensors) {
  std::map<const c10::StorageImpl *, Tensor> memory;
  std::vector<Tensor> copies;
  for (const Tensor &t : tensors) {
    Tensor &whole = memory[t.storage().unsafeGetStorageImpl()];
    auto bytes = static_cast<int64_t>(t.storage().nbytes());
    if (!whole.defined())
      whole = at::empty({0}, at::kByte).set_(t.storage(), 0, {bytes}, {1}).clone();
    copies.push_back(
        at::empty({0}, t.options()).set_(whole.storage(), t.storage_offset(), t.sizes(), t.strides()));
  }
  return copies;
}

} // namespace graphopt::corpus
