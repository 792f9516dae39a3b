// Which values share memory, who writes them, and which changes no graph can express.
#include "recording.h"

#include <ATen/Functions.h>

namespace graphopt::capture {
namespace {

TEST(Memory, InputReturned) {
  Capture capture = recordBody([](const Tensors &x) { return x[0]; }, {ramp({2})});
  EXPECT_EQ(bodyOf(capture), "return &%x\n");
}

TEST(Memory, ViewOfInputReturned) {
  Capture capture = recordBody([](const Tensors &x) { return x[0].select(0, 1); }, {ramp({2, 3})});
  EXPECT_EQ(bodyOf(capture), "%select: f32[3] = aten.select.int(&%x) {dim=0, index=1}\nreturn &%select\n");
}

TEST(Memory, OutputAliasesParameter) {
  at::Tensor w = ramp({2, 2});
  Capture capture = recordBody(
      [=](const Tensors &x) {
        at::Tensor y = x[0].mul(w);
        return std::make_tuple(y, w.t());
      },
      {ramp({2})}, {{"w", w}});
  EXPECT_EQ(bodyOf(capture), "%mul: f32[2, 2] = aten.mul.Tensor(%x, %w)\n"
                             "%t: f32[2, 2] strides=[1, 2] = aten.t(&%w)\n"
                             "return %mul, &%t\n");
}

TEST(Memory, TiedParametersAreOneValue) {
  at::Tensor w = ramp({2, 2});
  Capture capture = recordBody([=](const Tensors &x) { return x[0].mm(w).mm(w); }, {ramp({2, 2})},
                               {{"embed.weight", w}, {"head.weight", w}});
  EXPECT_EQ(declarationsOf(capture), "param %embed.weight: f32[2, 2]\n");
}

TEST(Memory, UnusedStateIsNotDeclared) {
  Capture capture = recordBody([](const Tensors &x) { return x[0].neg(); }, {ramp({2})}, {{"w", ramp({2})}});
  EXPECT_EQ(declarationsOf(capture), "");
}

TEST(Memory, SameTensorTwiceIsOneInput) {
  at::Tensor x = ramp({2});
  Capture capture = recordBody([](const Tensors &a) { return a[0].add(a[1]); }, {x, x});
  EXPECT_EQ(capture.inputs[0], capture.inputs[1]);
  EXPECT_EQ(guardsOf(capture, "same"), "same(\"x0\", \"x1\") == on\n");
}

TEST(Memory, IdentityResultsGetNamesOfTheirOwn) {
  Capture capture = recordBody(
      [](const Tensors &x) { return at::dropout(x[0], 0.5, false).to(at::kFloat).relu(); }, {ramp({2})});
  EXPECT_EQ(bodyOf(capture), "%dropout: f32[2] = aten.dropout(&%x) {p=0.5, train=false}\n"
                             "%to: f32[2] = aten.to.dtype(&%dropout) {dtype=f32}\n"
                             "%relu: f32[2] = aten.relu(%to)\n"
                             "return %relu\n");
}

TEST(Memory, WritesAreMarked) {
  at::Tensor count = at::zeros({3});
  Capture capture = recordBody(
      [=](const Tensors &x) {
        count.add_(x[0]);
        return count.mul(2);
      },
      {ramp({3})}, {{"count", count, false}});
  EXPECT_EQ(bodyOf(capture), "aten.add_.Tensor(&mut %count, %x)\n"
                             "%mul: f32[3] = aten.mul.Scalar(%count) {other=2}\n"
                             "return %mul\n");
  EXPECT_EQ(guardsOf(capture, "unshared"), "unshared(%x) == on\n");
}

TEST(Memory, HiddenWritesAreMarked) {
  at::Tensor mean = at::zeros({3}), var = at::ones({3});
  auto batchNorm = [=](bool training) {
    return recordBody(
        [=](const Tensors &x) { return at::batch_norm(x[0], {}, {}, mean, var, training, 0.1, 1e-5, false); },
        {at::rand({4, 3})}, {{"bn.mean", mean, false}, {"bn.var", var, false}});
  };
  EXPECT_NE(bodyOf(batchNorm(true)).find("aten.batch_norm(%x, none, none, &mut %bn.mean, &mut %bn.var)"),
            std::string::npos);
  EXPECT_NE(bodyOf(batchNorm(false)).find("aten.batch_norm(%x, none, none, %bn.mean, %bn.var)"),
            std::string::npos);
}

TEST(Memory, InPlaceViewsAreViews) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor y = x[0].clone();
        y.t_();
        y.transpose_(0, 1);
        y.unsqueeze_(0);
        y.squeeze_();
        return y.add(1);
      },
      {ramp({2, 3})});
  EXPECT_EQ(bodyOf(capture), "%clone: f32[2, 3] = aten.clone(%x)\n"
                             "%t: f32[3, 2] strides=[1, 3] = aten.t(&%clone)\n"
                             "%transpose: f32[2, 3] = aten.transpose.int(&%t) {dim0=0, dim1=1}\n"
                             "%unsqueeze: f32[1, 2, 3] = aten.unsqueeze(&%transpose) {dim=0}\n"
                             "%squeeze: f32[2, 3] = aten.squeeze(&%unsqueeze)\n"
                             "%add: f32[2, 3] = aten.add.Scalar(%squeeze) {other=1}\n"
                             "return %add\n");
}

TEST(Memory, ReshapingTheCallersTensorIsABorder) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        x[0].t_();
        return x[0].add(1);
      },
      {ramp({2, 3})});
  EXPECT_EQ(bordersOf(capture), "t_: changes the sizes of a tensor that the caller holds\n");
}

TEST(Memory, ResizingIsABorder) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor y = x[0].clone();
        y.resize_({6});
        return y.add(1);
      },
      {ramp({2, 3})});
  EXPECT_EQ(bordersOf(capture), "resize_: changes the sizes or the memory of its argument\n");
}

TEST(Memory, ResizingToTheSameSizeIsNone) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor y = at::empty({2, 3});
        return at::mul_out(y, x[0], x[0]);
      },
      {ramp({2, 3})});
  EXPECT_EQ(bordersOf(capture), "");
  EXPECT_EQ(bodyOf(capture), "%empty: f32[2, 3] = aten.empty.memory_format() {size=[2, 3]}\n"
                             "aten.mul.out(%x, %x, &mut %empty)\n"
                             "return %empty\n");
}

TEST(Memory, DetachInPlaceIsAView) {
  at::Tensor w = ramp({2}).requires_grad_();
  Capture capture = recordBody(
      [=](const Tensors &x) {
        at::Tensor y = x[0].mul(w);
        y.detach_();
        return y.mul(w);
      },
      {ramp({2})}, {{"w", w}});
  EXPECT_EQ(bodyOf(capture), "%mul: f32[2] = aten.mul.Tensor(%x, %w)\n"
                             "%detach: f32[2] = aten.detach(&%mul)\n"
                             "%mul.1: f32[2] = aten.mul.Tensor(%detach, %w)\n"
                             "return %mul.1\n");
}

TEST(Memory, UndispatchedAliasesAreDetach) {
  at::Tensor w = ramp({2}).requires_grad_();
  Capture capture = recordBody([=](const Tensors &x) { return x[0].mul(w.data()); }, {ramp({2})}, {{"w", w}});
  EXPECT_EQ(bodyOf(capture), "%detach: f32[2] = aten.detach(&%w)\n"
                             "%mul: f32[2] = aten.mul.Tensor(%x, %detach)\n"
                             "return %mul\n");
}

TEST(Memory, SwappedMemoryIsABorder) {
  at::Tensor w = ramp({2});
  Capture capture = recordBody(
      [=](const Tensors &x) {
        w.set_data(x[0].mul(2));
        return w.add(1);
      },
      {ramp({2})}, {{"w", w, false}});
  EXPECT_NE(bordersOf(capture).find("set_data"), std::string::npos) << bordersOf(capture);
}

TEST(Memory, OverlappingArgumentsThatAreOnlyRead) {
  at::Tensor x = ramp({4});
  Capture capture =
      recordBody([](const Tensors &a) { return a[0].sum().add(a[1].sum()); }, {x, x.slice(0, 1)});
  EXPECT_EQ(bordersOf(capture), "");
  EXPECT_EQ(guardsOf(capture, "alias"), "alias(%x0, %x1) == overlap\n");
}

TEST(Memory, WritingOverlappingArgumentsIsABorder) {
  at::Tensor x = ramp({4});
  Capture capture = recordBody(
      [](const Tensors &a) {
        a[0].add_(1);
        return a[1].sum();
      },
      {x, x.slice(0, 1)});
  EXPECT_EQ(bordersOf(capture), "writes memory that another declared value shares\n");
}

TEST(Memory, OutsideTensorsAreBoundByPointer) {
  auto h = std::make_shared<at::Tensor>(ramp({2}));
  Capture capture = recordBody([=](const Tensors &x) { return x[0].add(*h); }, {ramp({2})});
  EXPECT_EQ(declarationsOf(capture), "outside %out: f32[2]\n");
  ASSERT_EQ(capture.bound.size(), 1u);
  EXPECT_TRUE(capture.bound[0].get().is_same(*h));
  h->reset();
  EXPECT_FALSE(capture.bound[0].get().defined());
}

TEST(Memory, FreedAddressesAreNotTakenForEachOther) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor y = x[0];
        for (int i = 1; i < 50; ++i) {
          at::Tensor t = y.mul(i); // dies in this round; the next may get its address
          y = t.add(0.5);
        }
        return y;
      },
      {ramp({4})});
  std::string body = bodyOf(capture);
  for (int i = 2; i < 50; ++i) {
    std::string use =
        fmt::format("aten.mul.Scalar(%add{}) {{other={}}}", i == 2 ? "" : fmt::format(".{}", i - 2), i);
    EXPECT_NE(body.find(use), std::string::npos) << use;
  }
}

// where(mask) unbinds what nonzero made: its results share memory with each other and with no operand.
TEST(Memory, ResultsOfOneOperatorMayShareMemoryUntilItIsWritten) {
  auto where = [](bool write) {
    return recordBody(
        [write](const Tensors &x) -> c10::IValue {
          std::vector<at::Tensor> found = at::where(x[0]);
          if (write)
            found[0].add_(1);
          return c10::List<at::Tensor>(found);
        },
        {ramp({2, 3})});
  };
  EXPECT_EQ(bordersOf(where(false)).find("shares memory"), std::string::npos) << bordersOf(where(false));
  EXPECT_NE(bordersOf(where(true)).find("several results of one operator share"), std::string::npos);
}

} // namespace
} // namespace graphopt::capture
