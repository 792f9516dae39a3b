// Data that crosses between the host and tensors in mid-call: made by the host each call, or read by it.
#include "trap.h"

#include <torch/serialize.h>

#include <cstring>
#include <gtest/gtest.h>
#include <iostream>
#include <numeric>
#include <sstream>

namespace graphopt::soundness {
namespace {
using Tensors = std::vector<Tensor>;

/// A tensor over memory that dies with this function's frame, converted before it does.
Tensor fromDyingVector(int call) {
  std::vector<double> values(4);
  std::iota(values.begin(), values.end(), call);
  return torch::from_blob(values.data(), {4}, at::kDouble).to(at::kFloat);
}

/// Overwrites the stack and heap that the function above used.
double scribble(int call) {
  std::vector<double> noise(4, 1e6 + call);
  return std::accumulate(noise.begin(), noise.end(), 0.0);
}

} // namespace

TRAP(HostData, TensorFromBraces) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    ++call;
    return Tensors{x + torch::tensor({1.0F * call, 2.0F, 3.0F}), torch::tensor({call, 1}) * 2,
                   torch::tensor(call) + x, torch::tensor({{0.5, 1.0 * call}, {1.0, 2.0}})};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, TensorFromVector) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    std::vector<float> values(3, 0.5F * ++call);
    std::vector<int64_t> index{call % 3, (call + 1) % 3};
    return x * torch::tensor(values) + x.index_select(0, torch::tensor(index)).sum();
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, FromBlobOfDyingMemory) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    Tensor t = fromDyingVector(++call);
    const double noise = scribble(call);
    return x * t + noise;
  });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(HostData, FromBlobUsedTwice) {
  run.mayRunUnmatched(); // such operators run at once
  auto f = run.compile([call = 0](Tensor x) mutable {
    std::vector<float> memory(4, 1.0F + ++call);
    Tensor t = torch::from_blob(memory.data(), {4}), y = x * t;
    std::fill(memory.begin(), memory.end(), -5.0F); // both uses see their own time
    return Tensors{y, x * t};
  });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(HostData, FromBlobWrittenByAnOperator) {
  run.mayRunUnmatched(); // such operators run at once
  auto f = run.compile([](Tensor x) {
    std::vector<float> memory(4, 1.0F);
    Tensor t = torch::from_blob(memory.data(), {4});
    t.add_(x);
    Tensor y = t * 2;
    return std::pair<Tensor, double>(y, std::accumulate(memory.begin(), memory.end(), 0.0));
  });
  run.calls([&](int) {
    auto [y, sum] = f(run.randn({4}));
    run.see("y", y);
    run.see("sum", sum);
  });
}

TRAP(HostData, AccessorWritesIntoEmpty) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    Tensor t = torch::empty({2, 2});
    auto a = t.accessor<float, 2>();
    ++call;
    for (int64_t i = 0; i < 4; ++i)
      a[i / 2][i % 2] = static_cast<float>(i * call);
    return x.matmul(t);
  });
  run.calls([&](int) { run.see("y", f(run.randn({2, 2}))); });
}

TRAP(HostData, MemcpyThroughDataPtr) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    Tensor t = torch::zeros({3});
    const float values[] = {1, 2, static_cast<float>(++call)};
    std::memcpy(t.data_ptr<float>(), values, sizeof values);
    Tensor y = x * t;
    t.data_ptr<float>()[0] = 100; // after it was used
    return Tensors{y, x * t};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, WriteIntoResultOfAnOperator) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, z = y + 1;
    y.mutable_data_ptr<float>()[1] = 7;
    return Tensors{z, y * 3};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, FactoriesWithChangingNumbers) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    ++call;
    return Tensors{torch::arange(call % 4 + 1),         torch::full({2}, call) * 2,
                   torch::full({2}, 0.5 * call) + x,    torch::zeros({call % 3}),
                   torch::linspace(0, call, 3),         torch::eye(1 + call % 2),
                   torch::scalar_tensor(call * 1.5) * x};
  });
  run.calls([&](int) { run.see("y", f(run.randn({2}))); });
}

TRAP(HostData, ElementWrites) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    Tensor t = torch::zeros({3, 2});
    ++call;
    t[call % 3][0] = 0.5 * call;
    t.index_put_({torch::indexing::Slice(), 1}, x);
    return t * 2;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, ReadThroughDataPtr) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x.exp();
    float sum = 0;
    const float *p = y.const_data_ptr<float>();
    for (int64_t i = 0; i < y.numel(); ++i)
      sum += p[i];
    return y / sum;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, PointerReadAgainAfterWrite) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x.exp();
    const float before = y.const_data_ptr<float>()[0];
    y.add_(1);
    const float after = y.const_data_ptr<float>()[0];
    return Tensors{y * before, y * after};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, ParameterReadWithPendingWrite) {
  Tensor w = run.randn({3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    const at::NoGradGuard noGrad;
    w.add_(1);
    const float now = w.data_ptr<float>()[0];
    return x * now + w;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, AliasReadWithPendingWrite) {
  Tensor w = run.randn({3}).set_requires_grad(run.gradients());
  run.watch("w", w);
  Tensor alias = w.detach(), slice = alias.slice(0, 1);
  auto f = run.compile([w, alias, slice](Tensor x) {
    {
      const at::NoGradGuard noGrad;
      w.add_(1);
    }
    const float first = alias.data_ptr<float>()[0], second = slice.data_ptr<float>()[0];
    return Tensors{x * first, x * second, x * alias};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, ArgumentReadThroughAnOutsideAlias) {
  auto alias = std::make_shared<Tensor>();
  auto f = run.compile([alias](Tensor x) {
    x.mul_(2);
    return x + alias->data_ptr<float>()[0];
  });
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({3}));
    *alias = x.view({3, 1});
    run.see("y", f(x));
  });
}

TRAP(HostData, ParameterWrittenThroughDataPtr) {
  Tensor w = run.randn({3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    Tensor y = x * w;
    w.data_ptr<float>()[0] += 1; // y was computed before
    return Tensors{y, x * w};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, Printed) {
  auto f = run.compile([](Tensor x) {
    std::ostringstream text;
    Tensor y = x * 2;
    text << y << " " << y.sizes() << " " << y.sum();
    return std::pair<std::string, Tensor>(text.str(), y + 1);
  });
  run.calls([&](int) {
    auto [text, y] = f(run.randn({2, 2}));
    run.see("text", text);
    run.see("y", y);
  });
}

TRAP(HostData, SavedAndLoaded) {
  auto f = run.compile([](Tensor x) {
    std::stringstream file;
    Tensor y = x * 2, back;
    torch::save(y, file);
    y.add_(1); // not in the file
    torch::load(back, file);
    return Tensors{y, back * 3};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(HostData, ToTheHostAndBack) {
  auto f = run.compile([](Tensor x) {
    Tensor y = (x * 2).to(at::kCPU).contiguous();
    std::vector<float> values(y.const_data_ptr<float>(), y.const_data_ptr<float>() + y.numel());
    for (float &v : values)
      v = v > 0 ? v : 0;
    return torch::tensor(values).view(x.sizes()) + x;
  });
  run.calls([&](int) { run.see("y", f(run.randn({2, 2}))); });
}

TRAP(HostData, SharedStorageQuestions) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, v = y.view({4}), c = y.clone();
    const bool same = y.data_ptr() == v.data_ptr(), other = y.data_ptr() == c.data_ptr();
    std::string answers = std::to_string(same) + std::to_string(other) + std::to_string(y.is_alias_of(v)) +
                          std::to_string(y.is_alias_of(c)) + std::to_string(y.storage().nbytes()) +
                          std::to_string(y.storage().use_count() > 1);
    return std::pair<std::string, Tensor>(answers, v + c.view({4}));
  });
  run.calls([&](int) {
    auto [answers, y] = f(run.randn({2, 2}));
    run.see("answers", answers);
    run.see("y", y);
  });
}

TRAP(HostData, MetadataQuestions) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x.t().matmul(x).to(at::kDouble).unsqueeze(0);
    std::ostringstream text;
    text << y.sizes() << y.strides() << y.dtype() << y.device() << y.dim() << y.numel() << y.is_contiguous()
         << y.storage_offset() << y.element_size() << y.options().requires_grad() << y.layout()
         << y.itemsize();
    return std::pair<std::string, Tensor>(text.str(), y + y.size(-1));
  });
  run.expectSteady();
  run.calls([&](int) {
    auto [text, y] = f(run.randn({2, 3}));
    run.see("text", text);
    run.see("y", y);
  });
}

// Documented: a pointer that the host took before the call shows memory as it is, without what is still
// pending. A read through the tensor settles it.
TRAP(HostData, PointerKeptFromBeforeTheCall) {
  auto pointer = std::make_shared<const float *>();
  auto f = run.compile([pointer, replays = run.replays()](Tensor x) {
    x.add_(1);
    const float *p = *pointer;
    const float early = p[0], fresh = x.const_data_ptr<float>()[0], settled = p[0];
    EXPECT_TRUE(replays || early == fresh);
    EXPECT_EQ(settled, fresh);
    return x * fresh;
  });
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({3}));
    *pointer = x.const_data_ptr<float>();
    run.see("y", f(x));
  });
}

// Documented: what the host writes through such a pointer may be seen by operators that came before it.
TRAP(HostData, WriteThroughPointerFromBeforeTheCall) {
  auto pointer = std::make_shared<float *>();
  auto f = run.compile([pointer](Tensor x) {
    Tensor y = x * 2;
    (*pointer)[0] = 100;
    return y + 0;
  });
  run.calls([&](int) {
    Tensor x = torch::ones({3});
    *pointer = x.data_ptr<float>();
    const float first = f(x).const_data_ptr<float>()[0];
    run.see("right", first == 2 || (run.replays() && first == 200));
  });
}

// Documented: the storage of an unfinished tensor, asked for below the virtual functions, is not there yet.
TRAP(HostData, UnsafeStorage) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    const bool isThere = static_cast<bool>(y.unsafeGetTensorImpl()->unsafe_storage());
    const bool isThereLater = y.data_ptr() && y.unsafeGetTensorImpl()->unsafe_storage();
    return std::tuple<bool, bool, Tensor>(isThere, isThereLater, y);
  });
  run.calls([&](int) {
    auto [isThere, isThereLater, y] = f(run.randn({3}));
    run.see("right", isThere || run.replays());
    run.see("there after a read", isThereLater);
    run.see("y", y);
  });
}

TRAP(HostData, MaskWrittenThroughDataPtrEachStep) {
  Tensor mask = torch::zeros({4});
  run.watch("mask", mask);
  auto f = run.compile([mask](Tensor x) {
    std::vector<Tensor> all;
    for (int i = 0; i < 4; ++i) {
      mask.data_ptr<float>()[i] += 1;
      all.push_back(x * mask);
    }
    return torch::stack(all);
  });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(HostData, ArgumentWrittenThroughAccessorBetweenUses) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    x.accessor<float, 1>()[0] = 7;
    Tensor z = x + y;
    x.accessor<float, 1>()[1] = 8;
    return std::vector<Tensor>{y, z, x * 3};
  });
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    run.see("y", f(run.in("x", run.randn({3}))));
  });
}

} // namespace graphopt::soundness
