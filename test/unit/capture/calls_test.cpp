// What a recording leaves behind on its thread, and what other threads notice: nothing.
#include "capture/handler.h"
#include "capture/keys.h"
#include "recording.h"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <graphopt/error.h>
#include <thread>

namespace graphopt::capture {
namespace {

bool keyIsOn() { return c10::impl::tls_is_dispatch_key_included(kCaptureHigh); }

TEST(Calls, SelfTestPasses) { EXPECT_EQ(selfTest().value_or(""), ""); }

TEST(Calls, ExceptionsOfTheProgramPassThrough) {
  auto failing = [](const Tensors &x) -> c10::IValue {
    x[0].relu();
    throw std::out_of_range("the program's own");
  };
  EXPECT_THROW(recordBody(failing, {ramp({2})}), std::out_of_range);
  EXPECT_FALSE(keyIsOn());
  EXPECT_FALSE(isRecording());
  EXPECT_EQ(operatorsOf(recordBody([](const Tensors &x) { return x[0].relu(); }, {ramp({2})})),
            "aten.relu\n");
}

TEST(Calls, ExceptionsOfOperatorsPassThroughAndLeaveNoRow) {
  EXPECT_THROW(recordBody([](const Tensors &x) { return x[0].mm(x[0]); }, {ramp({2, 3})}), c10::Error);
  EXPECT_FALSE(keyIsOn());
  Capture capture = recordBody(
      [](const Tensors &x) {
        try {
          x[0].mm(x[0]);
        } catch (const c10::Error &) {
        }
        return x[0].neg();
      },
      {ramp({2, 3})});
  EXPECT_EQ(operatorsOf(capture), "aten.neg\n");
}

TEST(Calls, UndefinedResultsKeepTheirPlace) {
  Capture capture = recordBody(
      [](const Tensors &x) -> c10::IValue {
        auto [input, weight, bias] = at::convolution_backward(x[0], x[1], x[2], std::nullopt, {1}, {0}, {1},
                                                              false, {0}, 1, {false, true, false});
        return weight;
      },
      {ramp({1, 2, 3}), ramp({1, 2, 4}), ramp({2, 2, 2})});
  EXPECT_NE(bodyOf(capture).find(": none, "), std::string::npos) << bodyOf(capture);
  EXPECT_EQ(bordersOf(capture), "");
}

TEST(Calls, RecordingInsideARecordingIsRefused) {
  auto nested = [](const Tensors &x) -> c10::IValue {
    EXPECT_TRUE(isRecording());
    recordBody([](const Tensors &y) { return y[0].relu(); }, {x[0]});
    return x[0];
  };
  EXPECT_THROW(recordBody(nested, {ramp({2})}), Error);
  EXPECT_FALSE(isRecording());
}

TEST(Calls, BackwardInsideACallIsABorder) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor y = x[0].mul(x[0]).sum();
        y.backward();
        return x[0].grad().mul(2);
      },
      {ramp({2}).requires_grad_()});
  EXPECT_NE(bordersOf(capture).find("backward ran inside the call"), std::string::npos) << bordersOf(capture);
}

TEST(Calls, FourThreadsRecordAtOnce) {
  std::vector<std::thread> threads;
  std::array<std::string, 4> bodies;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round)
        bodies[i] = bodyOf(recordBody(
            [i](const Tensors &x) {
              at::Tensor y = x[0];
              for (int k = 0; k <= i; ++k)
                y = y.add(i);
              return y;
            },
            {ramp({4})}));
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 0; i < 4; ++i) {
    size_t lines = std::count(bodies[i].begin(), bodies[i].end(), '\n');
    EXPECT_EQ(lines, static_cast<size_t>(i) + 2) << bodies[i];
  }
}

TEST(Calls, NothingIsKeptAlive) {
  std::optional<WeakTensor> inner;
  Capture capture = recordBody(
      [&](const Tensors &x) {
        at::Tensor y = x[0].mul(2);
        inner.emplace(y.getIntrusivePtr());
        return y.add(1);
      },
      {ramp({2})});
  EXPECT_TRUE(inner->expired());
}

TEST(Structure, FlattensAndRestores) {
  at::Tensor a = ramp({1}), b = ramp({2});
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  dict.insert("k", b);
  c10::IValue value = c10::ivalue::Tuple::create(
      {c10::IValue(a), c10::IValue(c10::List<at::Tensor>({a, b})), c10::IValue(3), c10::IValue(dict)});
  Tensors leaves;
  Structure structure = flatten(value, leaves);
  EXPECT_EQ(leaves.size(), 4u);
  Tensors again;
  Structure copy = flatten(unflatten(structure, leaves), again);
  EXPECT_EQ(difference(structure, copy), "");
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(leaves[i].is_same(again[i]));
}

} // namespace
} // namespace graphopt::capture
