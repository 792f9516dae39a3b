"""Cases about memory and time: aliases, layouts, writes, loops, state that goes on from call to call."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing import Tuple

from case_table import EXACT, case, ints, randn


@case("c041", "pytorch/pytorch#162410", "alias", "a tensor overwritten by its own permutation",
      "x.copy_(x.flip(1)) was fused with a later reduction and read elements already overwritten",
      "inplace flip fusion", mutated=[0])
def c041():
    def f(x, y):
        x.copy_(x.flip(1))
        z = y.sum(1) + y
        x[1:] += x[:-1].clone()
        return x + z, x.t().contiguous()
    return f, [(randn(44, 6, 6), randn(45, 6, 6))]


@case("c043", "pytorch/pytorch#177631", "alias", "operations that copy although they change nothing",
      "a no-op pad was removed and its result became an alias of a tensor that is modified later",
      "inplace noop pad", tol=EXACT, mutated=[0])
def c043():
    def f(a):
        b, c, d = F.pad(a, (0, 0)), a + 0, a * 1
        e = torch.cat([a])
        a[0] = 100.0
        return torch.sort(b)[0], c - 1, d.flip(0), e * 2, a + b
    return f, [(randn(47, 3, 4),)]


@case("c045", "pytorch/pytorch#195422", "alias", "writing through the result of an inactive dropout",
      "dropout(training=False) returns its input; the in-place update made through it was lost",
      "inplace dropout identity", tol=EXACT, mutated=[0])
def c045():
    def f(x):
        y = F.dropout(x, 0.5, False)
        y += y
        return y + 1, x * 3
    return f, [(randn(49, 2, 5),)]


@case("c047", "pytorch/pytorch#104505", "alias", "as_strided of a view addresses the storage, not the view",
      "as_strided after diagonal was replayed on top of the diagonal when made functional",
      "as_strided inplace diagonal", tol=EXACT, mutated=[0])
def c047():
    def f(a):
        d = a.diagonal()
        d.as_strided((2,), (1,), 1).add_(10.0)
        t = a.t()[1:]
        t.as_strided((2, 2), (4, 1), 0).mul_(-1.0)
        return d + 0, a.sum(0), t.clone()
    return f, [(torch.arange(12.0).reshape(3, 4),)]


@case("c049", "pytorch/pytorch#183770", "layout", "memory format of results for channels_last input",
      "reflect padding returned a contiguous tensor where eager keeps channels_last",
      "channels_last pad strides", compare="strides")
def c049():
    def f(x, y):
        return (F.pad(x, (1, 2, 2, 1), mode="reflect"), x + 1, F.relu(x).neg(), torch.cat([x, x], 1), F.avg_pool2d(x, 2),
                x.permute(0, 2, 3, 1), x.sum((2, 3), keepdim=True), x * y, torch.sigmoid(y), x.to(torch.float64))
    return f, [(randn(54, 2, 3, 4, 5).to(memory_format=torch.channels_last), randn(55, 2, 5, 4, 3).transpose(1, 3))]


@case("c064", "pytorch/pytorch#171493", "scatter", "sum per group, gathered back, all in one expression",
      "the gather was fused with index_add and read partial sums",
      "index_add gather item", mode="script", tol=(1e-4, 1e-5))
def c064():
    class M(nn.Module):
        def forward(self, f: Tensor, g: Tensor) -> Tensor:
            u = f * f + 0.0125
            n = int(g.max().item()) + 1
            t = torch.zeros(n, f.size(1))
            t.index_add_(0, g, u)
            return u / (t[g] + 1e-6)
    return M(), [(torch.ones(1024, 1), torch.zeros(1024, dtype=torch.long)), (randn(88, 50, 2), ints(89, 0, 6, 50)),
                 (randn(90, 9, 1), torch.arange(9))]


@case("c066", "pytorch/pytorch#75794", "control", "names rotated in a loop, one updated in place",
      "the scripted loop updated a different tensor than eager from the second iteration on",
      "loop inplace rotate", mode="script", tol=EXACT)
def c066():
    class M(nn.Module):
        def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
            a, b, c = torch.zeros(1), torch.zeros(1), torch.zeros(1)
            seen = torch.zeros(x.size(0))
            for i in range(x.size(0)):
                a, b, c = c, a, b
                a[0] += x[i]
                seen[i] = a[0]
            return a, b, c, seen
    return M(), [(torch.arange(1.0, 6.0),), (torch.ones(2),), (torch.zeros(0),)]


@case("c068", "pytorch/pytorch#185382", "control", "scalar read in a loop drives in-place updates",
      "after a break for .item() the later addcdiv_ used stale values from the third iteration on",
      "item loop addcdiv adam", mode="script", tol=(1e-5, 1e-7), mutated=[0])
def c068():
    class M(nn.Module):
        def forward(self, p: Tensor, g: Tensor, n: int) -> Tuple[Tensor, Tensor]:
            m, v, t = torch.zeros_like(p), torch.zeros_like(p), torch.zeros(1)
            for _ in range(n):
                t.add_(1)
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.99).addcmul_(g, g, value=0.01)
                k = float(t.item())
                d = (v.sqrt() / ((1 - 0.99 ** k) ** 0.5)).add_(1e-8)
                p.addcdiv_(m, d, value=-0.05 / (1 - 0.9 ** k))
                if float(p.abs().max()) > 2.0:
                    p.clamp_(-1.5, 1.5)
            return p + 0, m

    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = M()

        def forward(self, p: Tensor, g: Tensor) -> Tuple[Tensor, Tensor]:
            return self.m(p, g, 6)
    return Fixed(), [(randn(92, 5), randn(93, 5)), (randn(94, 5) * 3, randn(95, 5))]


@case("c070", "pytorch/pytorch#107942", "state", "dropout with p=1 and p=0 while training",
      "1/(1-p) divided by zero at compile time",
      "dropout p1 train", grad_inputs=[0], train=True, tol=(1e-6, 1e-6))
def c070():
    def f(x):
        return F.dropout(x, 1.0, True) + x, F.dropout(x, 0.0, True) * 2, F.dropout(x, 1.0, False), F.alpha_dropout(x, 0.0, True)
    return f, [(randn(100, 3, 4),)]


@case("c072", "pytorch/TensorRT#3978", "dynamic", "rotary embedding with changing sequence length",
      "with a dynamic length the sliced tables were wrong",
      "rope dynamic slice", mode="script", tol=(1e-5, 1e-6))
def c072():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            t = torch.arange(32.0)[:, None] / (100.0 ** (torch.arange(0, 8, 2) / 8.0))
            self.register_buffer("c", torch.cat([t, t], 1).cos())
            self.register_buffer("s", torch.cat([t, t], 1).sin())

        def forward(self, q: Tensor, start: Tensor) -> Tensor:
            p = int(start.item())
            c, s = self.c[p:p + q.size(2)], self.s[p:p + q.size(2)]
            return q * c + torch.cat([-q[..., 4:], q[..., :4]], -1) * s
    return M(), [(randn(103 + n, 1 + b, 2, n, 8), torch.tensor(p)) for n, b, p in ((5, 0, 0), (5, 0, 3), (1, 0, 8), (7, 1, 0), (1, 1, 31))]
