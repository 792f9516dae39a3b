// Tensors that host code makes from its own data, and what the host reads back.
#include "recording.h"

#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <ATen/ThreadLocalState.h>
#include <limits>
#include <thread>

namespace graphopt::capture {
namespace {

TEST(HostData, ScalarTensorsAreValuesByContent) {
  Capture capture =
      recordBody([](const Tensors &x) { return x[0].mul(c10::scalar_to_tensor(3)); }, {ramp({2})});
  EXPECT_EQ(declarationsOf(capture), "hostval %n: i64[] = 3\n");
}

TEST(HostData, BorrowedMemoryIsCopiedAtFirstUse) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        float data[3] = {1, 2, 3};
        at::Tensor y = x[0].mul(at::from_blob(data, {3}));
        data[0] = 100;
        return y;
      },
      {ramp({3})});
  EXPECT_EQ(declarationsOf(capture), "const %k: f32[3] = [1.0, 2.0, 3.0]\n");
}

TEST(HostData, MemoryFilledByTheHostIsAConstant) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor k = at::empty({3}, at::kLong);
        for (int i = 0; i < 3; ++i)
          k.mutable_data_ptr<int64_t>()[i] = 2 - i;
        return x[0].index_select(0, k);
      },
      {ramp({3})});
  EXPECT_EQ(declarationsOf(capture), "const %k: i64[3] = [2, 1, 0]\n");
  EXPECT_EQ(bodyOf(capture),
            "%index_select: f32[3] = aten.index_select(%x, %k) {dim=0}\nreturn %index_select\n");
}

TEST(HostData, MemoryFilledByOperatorsIsNot) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor k = at::empty({3});
        k.select(0, 0).fill_(1);
        k.slice(0, 1).fill_(2);
        return x[0].mul(k);
      },
      {ramp({3})});
  EXPECT_EQ(declarationsOf(capture), "");
  EXPECT_EQ(capture.stats.operators, 6u);
}

TEST(HostData, AWrittenConstantGetsACopyAtEachCall) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor k = at::empty({2});
        k.mutable_data_ptr<float>()[0] = 1;
        k.mutable_data_ptr<float>()[1] = 2;
        at::Tensor y = x[0].mul(k);
        k.add_(y);
        return k;
      },
      {ramp({2})});
  EXPECT_EQ(bodyOf(capture), "%k.1: f32[2] = aten.clone(%k)\n"
                             "%mul: f32[2] = aten.mul.Tensor(%x, %k.1)\n"
                             "aten.add_.Tensor(&mut %k.1, %mul)\n"
                             "return %k.1\n");
}

TEST(HostData, AWrittenScalarIsCopiedIfItDiesAndStateIfNot) {
  auto body = [](at::Tensor n, const at::Tensor &x) {
    n.add_(1);
    return x.mul(n);
  };
  Capture temporary =
      recordBody([=](const Tensors &x) { return body(c10::scalar_to_tensor(3), x[0]); }, {ramp({2})});
  EXPECT_EQ(declarationsOf(temporary), "hostval %n: i64[] = 3\n");
  EXPECT_EQ(bodyOf(temporary).substr(0, 27), "%n.1: i64[] = aten.clone(%n");
  at::Tensor step = at::zeros({});
  Capture kept = recordBody([=](const Tensors &x) { return body(step, x[0]); }, {ramp({2})});
  EXPECT_EQ(declarationsOf(kept), "outside %out: f32[]\n");
}

TEST(HostData, LargeConstantsAreKeptByHash) {
  auto run = [](float value) {
    std::vector<float> data(100, value);
    return recordBody([&](const Tensors &x) { return x[0].mul(at::from_blob(data.data(), {100})); },
                      {ramp({100})});
  };
  std::string one = declarationsOf(run(1)), same = declarationsOf(run(1)), other = declarationsOf(run(2));
  EXPECT_EQ(one.substr(0, 27), "const %k: f32[100] = file \"") << one;
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
}

TEST(HostData, WritingBorrowedMemoryIsABorder) {
  std::vector<float> data(3, 1);
  Capture capture = recordBody(
      [&](const Tensors &x) {
        at::Tensor k = at::from_blob(data.data(), {3});
        k.add_(x[0]);
        return k.sum();
      },
      {ramp({3})});
  EXPECT_NE(bordersOf(capture).find("writes memory that the host owns"), std::string::npos);
}

TEST(HostReads, OfComputedValuesAreBorders) {
  Capture capture = recordBody(
      [](const Tensors &x) { return x[0].sum().item<float>() > 0 ? x[0].relu() : x[0].neg(); }, {ramp({3})});
  EXPECT_EQ(bodyOf(capture), "%sum: f32[] = aten.sum(%x)\n"
                             "border #0 read %sum reason=\"item\" at=\"\" seq=1\n"
                             "%relu: f32[3] = aten.relu(%x)\n"
                             "return %relu\n");
  EXPECT_EQ(capture.stats.borders, 1u);
}

TEST(HostReads, OfSizesAndConstantsAreFollowed) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor n = c10::scalar_to_tensor(x[0].size(0));
        at::Tensor half = at::floor_divide(n, at::scalar_tensor(2, at::kLong));
        return x[0].slice(0, 0, half.item<int64_t>());
      },
      {ramp({6})});
  EXPECT_EQ(bordersOf(capture), "");
  EXPECT_EQ(capture.stats.followedReads, 1u);
}

TEST(HostReads, OfWrittenValuesFollowWhatWasWritten) {
  auto run = [](bool dependsOnInput) {
    return recordBody(
        [=](const Tensors &x) {
          at::Tensor n = at::zeros({1}, at::kFloat);
          n.add_(dependsOnInput ? x[0].sum() : at::ones({1}));
          return x[0].mul(n.item<float>());
        },
        {ramp({3})});
  };
  EXPECT_EQ(bordersOf(run(false)), "");
  EXPECT_EQ(bordersOf(run(true)), "item\n");
}

TEST(HostReads, OfRandomNumbersAreBorders) {
  Capture capture =
      recordBody([](const Tensors &x) { return x[0].mul(at::rand({1}).item<float>()); }, {ramp({3})});
  EXPECT_EQ(bordersOf(capture), "item\n");
}

TEST(HostReads, DataDependentSizesAreBorders) {
  Capture capture = recordBody([](const Tensors &x) { return at::nonzero(x[0]); }, {ramp({3})});
  EXPECT_EQ(bordersOf(capture), "nonzero\n");
  EXPECT_EQ(bordersOf(recordBody([](const Tensors &x) { return at::masked_select(x[0], x[0].gt(1)); },
                                 {ramp({3})})),
            "masked_select\n");
}

TEST(HostReads, MetadataIsNotRecorded) {
  Capture capture = recordBody(
      [](const Tensors &x) { return x[0].mul(at::result_type(x[0], 2) == at::kFloat ? x[0].size(0) : 0); },
      {ramp({3})});
  EXPECT_EQ(operatorsOf(capture), "aten.mul.Scalar\n");
  EXPECT_EQ(bordersOf(capture), "");
}

// at::equal of a tensor with itself is false when it holds a nan, so it is a read of data.
TEST(HostReads, EqualToItselfDependsOnNan) {
  at::Tensor nan = at::full({2}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(at::equal(nan, nan));
  Capture capture = recordBody(
      [](const Tensors &x) { return at::equal(x[0], x[0]) ? x[0].relu() : x[0].neg(); }, {ramp({3})});
  EXPECT_EQ(bordersOf(capture), "equal\n");
}

TEST(HostReads, EqualToItselfIsKnownForIntegers) {
  Capture capture =
      recordBody([](const Tensors &x) { return at::equal(x[0], x[0]) ? x[0].neg() : x[0].abs(); },
                 {ramp({3}).to(at::kLong)});
  EXPECT_EQ(bordersOf(capture), "");
}

TEST(HostData, OperatorsOfOtherThreadsAreNotRecorded) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        std::thread([] { at::ones({2}).add_(1); }).join();
        return x[0].relu();
      },
      {ramp({3})});
  EXPECT_EQ(operatorsOf(capture), "aten.relu\n");
}

TEST(HostData, TasksOfTheProgramAreNoticed) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor y;
        std::thread([&, state = at::ThreadLocalState()] {
          at::ThreadLocalStateGuard guard(state);
          y = x[0].neg();
        }).join();
        return y.relu();
      },
      {ramp({3})});
  EXPECT_NE(bordersOf(capture).find("operators ran on another thread"), std::string::npos)
      << bordersOf(capture);
}

} // namespace
} // namespace graphopt::capture
