"""The cases: small programs, each suggested by a public bug report of another compiler, in our own words and code.

A case is a function that returns a module or function and its input sets; the decorator says what else counts
(case_table.py). C++ cases are cpp/ID.cpp.
"""
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing import List, Tuple

from case_table import EXACT, INF, NAN, Pair, case, cpp, ints, randn, rng


@case("c001", "pytorch/pytorch#105264", "int", "uint8 arithmetic wraps before it is widened",
      "the fused kernel kept the sum in a C int, so 8-bit wrap-around was lost when the result was cast to a wider type",
      "uint8 promotion", tol=EXACT)
def c001():
    def f(x, y):
        return (x * 3 + y).to(torch.int32), (x - y).to(torch.float32) * 0.5, (x + y).sum()
    return f, [(ints(1, 0, 256, 37, dtype=torch.uint8), ints(2, 0, 256, 37, dtype=torch.uint8))]


@case("c003", "pytorch/pytorch#161763", "int", "negated uint8 used in a comparison and in float arithmetic",
      "-x of uint8 was negative inside the kernel, so x+float and comparisons saw -7 instead of 249",
      "uint8 neg compare", tol=EXACT)
def c003():
    def f(x, w):
        n = torch.neg(x)
        return n < 10, n + w, n.to(torch.int16) - 1, torch.where(n > 128, w, -w)
    return f, [(torch.tensor([0, 1, 6, 7, 128, 250, 255, 9, 10], dtype=torch.uint8), randn(5, 9))]


@case("c005", "pytorch/pytorch#98149", "int", "pow of small integers wraps before a transcendental",
      "x**5 of uint8 was not reduced modulo 256 before cos was applied",
      "uint8 int8 pow", tol=(1e-6, 1e-6))
def c005():
    def f(x, y):
        return torch.cos(x.pow(5)), torch.sigmoid(y ** 3), (x ** 2).to(torch.int32), torch.sqrt(x * x)
    return f, [(torch.arange(0, 24, dtype=torch.uint8), torch.arange(-12, 12, dtype=torch.int8))]


@case("c007", "pytorch/pytorch#183901", "int", "int64 index arithmetic does not fit 32 bits",
      "arange * constant of dtype int64 was evaluated with 32-bit index registers and overflowed",
      "int64 indexing arange", mode="script", tol=EXACT)
def c007():
    class M(nn.Module):
        def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
            i = torch.arange(x.size(0), device=x.device)
            big = i * 1700000003
            return big + x, big // 7 - i * i * i * 1000003, (big % 1000).to(torch.float32)
    return M(), [(ints(6, -5, 5, 41),), (ints(7, -5, 5, 3),)]


@case("c009", "pytorch/pytorch#198057", "int", "float remainder: infinite divisor, huge quotient, vector body and tail",
      "the vectorised body used a - floor(a/b)*b (NaN for an infinite divisor), the scalar tail was right, so values depended on the length",
      "remainder fmod inf vector-tail", tol=EXACT)
def c009():
    def f(a, b):
        return torch.remainder(a, b), torch.fmod(a, b), a % 0.75
    a = torch.tensor([5.5, -5.5, 0.0, 1e20, 2147483648.0, 7.0, 1.0, -0.0, -7.0, 3.25])
    b = torch.tensor([INF, -INF, INF, 3.0, 3.0, 0.7, 0.1, 1.0, 2.5, -INF])
    return f, [(a[:n].clone(), b[:n].clone()) for n in (10, 3, 1)] + [(a.repeat(3), b.repeat(3))]


@case("c011", "pytorch/pytorch#191968", "crash", "integer % where a vector register has unused lanes",
      "padding lanes of the divisor were zero and a spurious ZeroDivisionError was raised",
      "remainder vector-tail", tol=EXACT)
def c011():
    def f(x, n):
        return x % n, torch.div(x, n, rounding_mode="floor"), torch.fmod(x, n)
    return f, [(torch.arange(-3, 2 * k - 3).reshape(2, k), torch.full((k,), 16) - torch.arange(k))
               for k in (3, 1, 5, 7, 13)]


@case("c013", "pytorch/pytorch#184893", "reduction", "index of min and max over bool",
      "min(dim)/max(dim) of bool tensors returned an index whose value is not the extremum",
      "bool argmax ties", tol=EXACT)
def c013():
    def f(m):
        a, b = m.max(1)
        c, d = m.min(0)
        return a, b, c, d
    m = ints(8, 0, 2, 6, 33).bool()
    m[0], m[1] = True, False
    m[2] = torch.arange(33) >= 4
    return f, [(m,)]


@case("c015", "pytorch/pytorch#197108", "reduction", "reductions of nothing",
      "the mean returned by var_mean of an empty tensor was 0 instead of NaN",
      "empty var_mean", tol=EXACT)
def c015():
    def f(x):
        v, m = torch.var_mean(x, dim=0)
        s, n = torch.std_mean(x)
        return (v, m, s, n, x.sum(0), x.mean(0), x.prod(0), x.sum(), (x > 0).all(0), (x > 0).any(),
                torch.logsumexp(x, 0))
    return f, [(torch.zeros(0, 3),), (torch.zeros(0, 1),)]


@case("c017", "pytorch/pytorch#189518", "dtype", "cumsum of a constant tensor with an explicit dtype",
      "a rewrite of cumsum(full) to arange dropped the dtype argument and the fill value's conversion",
      "cumsum dtype pattern", tol=EXACT)
def c017():
    def f(x):
        n = x.size(0)
        a = torch.ones((n, 5), dtype=torch.bool).cumsum(1, dtype=torch.bfloat16)
        b = torch.full((n, 4), 2, dtype=torch.int8).cumsum(0, dtype=torch.float32)
        c = torch.full((n, 3), 1.5).cumsum(1)
        return a, b, c * x[0], torch.ones((2, 3), dtype=torch.int32).cumsum(0)
    return f, [(randn(11, 6),)]


@case("c019", "pytorch/pytorch#197091", "dtype", "ldexp promotes both operands",
      "the result kept the mantissa's dtype (or float32), eager promotes both operands",
      "ldexp promotion half", tol=EXACT)
def c019():
    def f(b, h, i, x):
        return (torch.ldexp(b, h), torch.ldexp(h, x), torch.ldexp(i, h.to(torch.bfloat16)),
                torch.ldexp(x, i), torch.ldexp(i, i))
    return f, [(torch.tensor([True, False, True]), torch.tensor([1.0, 2.0, -3.0]).half(),
                torch.tensor([3, -2, 5]), torch.tensor([0.5, 4.0, -2.0]))]


@case("c021", "apache/tvm#20231", "values", "round half to even, with positive and negative decimals",
      "halves were rounded away from zero and negative decimals lost exactness",
      "round ties", tol=EXACT, compare="sign0")
def c021():
    def f(x, y):
        return torch.round(x), torch.round(y, decimals=-1), torch.round(x, decimals=1), (x + 0.0).round().to(torch.int32)
    return f, [(torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5, 4.5, -0.2, 1e10, 8388609.5]),
                torch.tensor([25.0, 35.0, -15.0, 5.0, -5.0, 105.0], dtype=torch.float64))]


@case("c022", "apache/tvm#20230", "dtype", "the dtype argument of reductions",
      "mean(dtype=...) ignored the argument and accumulated in the input's precision",
      "mean sum half dtype", tol=(1e-5, 1e-5))
def c022():
    def f(h, x, b):
        return (h.mean(1, dtype=torch.float32), x.mean(0, dtype=torch.float64), h.sum(dtype=torch.float64),
                b.sum(1, dtype=torch.int32), b.sum(), x.prod(0, dtype=torch.float64), h.norm(2.0, 1, dtype=torch.float32))
    return f, [(randn(17, 4, 301).half() * 100, randn(18, 5, 6), ints(19, 0, 2, 4, 70).bool())]


@case("c024", "jax-ml/jax#37919", "nan", "algebra that is false in floating point: sqrt(x*x)",
      "sqrt(abs(square(x))) was simplified to abs(x), which hides overflow and underflow",
      "algebraic overflow", tol=(1e-6, 0.0))
def c024():
    def f(x):
        return (torch.sqrt(torch.abs(torch.square(x))), torch.sqrt(x * x), (x * 2.0) / 2.0, (x + 1e8) - 1e8,
                torch.exp(torch.log(x)), (x * 1e-30) * 1e-30 * 1e30)
    return f, [(torch.tensor([3.4028235e38, 1e-30, 2e38, 1.0, -3.0, 0.0, 1e20, -1e-25]),)]


@case("c026", "openxla/xla#44705", "nan", "atan2 of zeros made from booleans",
      "equal comparisons xor-ed and cast gave an all-zero pair for which the compiled atan2 was NaN",
      "bool xor atan2", tol=(1e-6, 0.0), compare="sign0")
def c026():
    def f(a, z):
        e = ((a != 0) ^ (a != 0)).to(torch.float32)
        return torch.atan2(e, e), torch.atan2(-e, -e), torch.atan2(e, z), torch.hypot(e, e), torch.atan2(z, -e)
    return f, [(torch.arange(5), torch.tensor([0.0, -0.0, 1.0, -1.0, INF]))]


@case("c028", "pytorch/pytorch#163932", "nan", "softmax after a very large scale",
      "max and scale were exchanged; max(x)*s and x*s round differently, the difference overflowed exp and gave NaN",
      "softmax scale pattern", tol=(1e-5, 1e-7))
def c028():
    def f(x, s):
        return torch.softmax(x * 3.1e13, -1), torch.softmax(x * s, 1), F.log_softmax(x * 1e5, -1), torch.softmax(-x / 3e-14, 0)
    return f, [(randn(23, 5, 25), torch.tensor(-1.7197e14))]


@case("c031", "jax-ml/jax#38097", "grad", "gradient of log(exp(x)) where exp overflows or underflows",
      "log(exp(x)) was replaced by x, so the gradient was 1 everywhere",
      "algebraic overflow", tol=(1e-6, 1e-7), grad_inputs=[0])
def c031():
    def f(x):
        return torch.log(torch.exp(x)), torch.log1p(torch.expm1(x)), torch.sqrt(torch.square(x))
    return f, [(torch.tensor([0.5, 88.0, 89.0, 120.0, -104.0, -87.5, 0.0, -2.0]),)]


@case("c033", "pytorch/pytorch#159239", "dtype", "rotary embedding in bfloat16: intermediate roundings",
      "casts between fused operations were elided, results differ from eager by a few bfloat16 ulps",
      "bf16 rounding rope", tol=(1.6e-2, 1e-3), policy=True)
def c033():
    def f(q, c, s):
        h = q.size(-1) // 2
        r = torch.cat([-q[..., h:], q[..., :h]], -1)
        return q * c + r * s, (q.float() * c.float() + r.float() * s.float()).to(torch.bfloat16)
    t = randn(25, 7, 8)
    return f, [(randn(26, 2, 7, 8, dtype=torch.bfloat16), t.cos().bfloat16(), t.sin().bfloat16())]


@case("c034", "pytorch/pytorch#94775", "values", "max pooling with ceil_mode: no window wholly outside",
      "an extra row of -inf appeared because the last window started beyond the input",
      "pool ceil_mode shape", tol=EXACT)
def c034():
    def f(x):
        a, i = F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, return_indices=True)
        return F.max_pool2d(x, 1, stride=2, ceil_mode=True), a, i, F.max_pool2d(x, (2, 3), (3, 2), (1, 0), (1, 2), True)
    return f, [(randn(27, 1, 2, 6, 7),), (randn(28, 2, 1, 5, 8),)]


@case("c037", "pytorch/pytorch#100318", "nan", "hand-written attention with an all-false mask row",
      "the pattern was replaced by fused attention, whose answer for a fully masked row is different",
      "attention mask pattern", tol=(1e-5, 1e-6))
def c037():
    def f(q, k, v, m):
        s = (q @ k.transpose(-2, -1)) / (q.size(-1) ** 0.5)
        a = torch.softmax(s.masked_fill(~m, -INF), -1) @ v
        b = torch.softmax(s + torch.where(m, 0.0, -1e9), -1) @ v
        return a, b
    m = ints(33, 0, 2, 1, 1, 4, 6).bool()
    m[..., 1, :], m[..., 2, :] = False, True
    return f, [(randn(34, 2, 2, 4, 8), randn(35, 2, 2, 6, 8), randn(36, 2, 2, 6, 8), m)]


@case("c039", "pytorch/pytorch#189895", "reduction", "padding put on the result of a long reduction",
      "the pad was fused into the second stage of a split reduction and the leading element was not the fill value",
      "pad split-reduction cumsum", tol=EXACT)
def c039():
    def f(m):
        n = m.sum(-1, dtype=torch.int32)
        return F.pad(torch.cumsum(n, 0, dtype=torch.int32), (1, 0)), F.pad(n, (2, 1), value=-7), F.pad(m.float().sum(0), (0, 3))
    return f, [(ints(40, 0, 2, 1, 20011).bool(),), (ints(41, 0, 2, 3, 9000).bool(),)]


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


@case("c051", "pytorch/pytorch#136662", "grad", "column updated in place from another column",
      "the backward of the in-place slice update dropped or duplicated contributions",
      "inplace slice", grad_inputs=[0])
def c051():
    def f(x):
        y = x * 1.0
        y[:, 0] += x[:, 2].abs()
        y[:, 1:3] *= y[:, :1].clone()
        z = y.clone()
        z[0] = y[1] * 2
        return (z.unsqueeze(-2) @ torch.ones(4, 4).tril()).squeeze(-2), y
    return f, [(randn(62, 3, 4),)]


@case("c053", "pytorch/pytorch#188084", "grad", "gradient accumulated into an expanded tensor",
      "index_put(accumulate) on an expand view was made in-place, every row received the sum of all rows",
      "expand index_put accumulate", grad_inputs=[0, 1])
def c053():
    def f(x, w):
        s = torch.stack([x[..., k] for k in range(4)], -1)
        i = torch.tensor([0, 2, 0])
        a = (s.index_select(-1, i) * w).sum(-1)
        b = torch.index_put(w[:1].expand(3, 5), (torch.tensor([0, 0, 2]), torch.tensor([1, 1, 4])), x[0, :3], accumulate=True)
        c = x.unsqueeze(1).expand(4, 3, 4)[:, :, i].prod(1)
        return a, b, c
    return f, [(randn(65, 4, 4), randn(66, 3))]


@case("c055", "pytorch/pytorch#168358", "grad", "index_reduce with amax: ties and untouched rows",
      "gradients became NaN because -inf rows met the tie count of zero",
      "index_reduce amax ties", grad_inputs=[0])
def c055():
    def f(s):
        i = torch.tensor([0, 0, 0, 3, 3])
        a = torch.full((3,), -INF).new_full((4,), -INF).index_reduce(0, i, s, "amax", include_self=False)
        b = torch.zeros(4).index_reduce(0, i, s, "amin", include_self=True)
        return torch.where(torch.isfinite(a), a, torch.zeros_like(a)), b, torch.zeros(4).scatter_reduce(0, i, s, "amax", include_self=False)
    return f, [(torch.tensor([1.0, 2.5, 2.5, -4.0, -1.0]),)]


@case("c057", "pytorch/pytorch#84510", "grad", "gradient of a broadcast power",
      "forward was right, the gradient of the fused (x+y)**z was not, for some broadcast shapes and sizes",
      "pow broadcast", grad_inputs=[0, 1, 2], tol=(1e-4, 1e-5))
def c057():
    def f(x, y, z):
        return (x + y) ** z, x ** 2 + y ** 3, (-y) ** 2.0, torch.pow(2.0, z) * x
    u = lambda s, *d: torch.rand(d, generator=rng(s)) + 0.1
    return f, [(u(70, 3, 1, 1, 1, 1), u(71, 1, 1, 1, 4), u(72, 1, 1, 1, 1)),
               (u(73, 70, 1, 1, 1, 1), u(74, 1, 1, 1, 4), u(75, 1, 1, 1, 1))]


@case("c059", "pytorch/pytorch#108670", "grad", "layer norm over the middle dimension",
      "the scripted function gave wrong gradients from the second or third call on",
      "layernorm var repeated-calls", mode="script", grad_inputs=[0, 1], tol=(1e-4, 1e-5))
def c059():
    class M(nn.Module):
        def forward(self, x: Tensor, g: Tensor) -> Tensor:
            m = x.mean(dim=1, keepdim=True)
            v = x.var(dim=1, keepdim=True, unbiased=False)
            return g * ((x - m) / torch.sqrt(v + 1e-5))
    g = 1 + 0.1 * randn(77, 1, 8, 1)
    return M(), [(randn(78 + k, 2, 8, 5), g) for k in range(4)]


@case("c061", "tinygrad/tinygrad#9597", "grad", "two parameters that happen to hold equal values",
      "equal constants were merged, so each parameter got the gradient of both",
      "cse parameters", grad_params=True, grad_inputs=[0])
def c061():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.full((3,), 3.0)), nn.Parameter(torch.full((3,), 3.0))
            self.c = nn.Parameter(torch.ones(3))
            self.register_buffer("k", torch.ones(3))

        def forward(self, x):
            return self.a * x + self.b, self.a.sum() * self.b.prod() - (self.c * self.k).sum() * x.mean()
    return M(), [(randn(85, 2, 3),)]


@case("c063", "pytorch/pytorch#183604", "grad", "one tensor used in both operands and through views",
      "when both arguments were the same tensor only one of the two gradient contributions survived",
      "same-input views", grad_inputs=[0])
def c063():
    def f(x):
        a = x * x + x + x
        b = torch.matmul(x, x.t())
        c = torch.cat([x, x]) * torch.stack([x, x]).reshape(8, -1)
        return a, b, c, torch.where(x > 0, x, x * 0.1), torch.dist(x, x.flip(0))
    return f, [(randn(87, 4, 3),)]


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


@case("c074", "pytorch/pytorch#100466", "nan", "comparison result used as a number",
      "vector comparisons gave a mask of all one bits that was used as a float and became NaN",
      "bool mask arithmetic", mode="script", tol=EXACT)
def c074():
    def f(x, y):
        return x * (x >= 0), (x > y).to(torch.float32) + (x < y), (x == y) * 2.5, (x > 0).sum(1), (x >= y) & (x != 0), (x > y) | (y > 0), ~(x > y), (x > 0) + (y > 0)
    return f, [(randn(150, 3, 19), randn(151, 3, 19))]


cpp("c077", "pytorch/pytorch#198095", "alias", "result is a view of an aliased argument with an offset",
    "the returned view was rebuilt from the wrong base and offset",
    "alias view output")
cpp("c079", "pytorch/pytorch#110803", "recompile", "alternating train() and eval()",
    "every switch failed the guards and compiled again; an earlier report saw a stale mode instead",
    "train eval dropout batchnorm")
cpp("c081", "pytorch/pytorch#111785", "state", "member re-pointed to another slice of a buffer",
    "every call wrote to the slice seen during capture",
    "host-state slice inplace")
cpp("c083", "pytorch/pytorch#190758", "rng", "dropout recomputed in the backward",
    "recomputation drew a new mask, so the gradient belonged to another sample",
    "dropout recompute checkpoint")
cpp("c086", "pytorch/pytorch#69031", "ddp", "replicas, accumulation and parameters unused in the last step",
    "gradients of parameters not used in the last accumulation step were never averaged",
    "ddp unused accumulate")
cpp("c089", "pytorch/xla#3291", "alias", "view of an argument is used after the call",
    "after the graph was executed a view and its base no longer shared memory",
    "view base lazy")
cpp("c090", "pytorch/pytorch#183608", "crash", "index out of range must be an error",
    "negative embedding indices were wrapped like Python indices instead of being rejected",
    "embedding error bounds")
cpp("c091", "pytorch/pytorch#181564", "amp", "same function under two autocast types",
    "the cache key had 'autocast on' but not its type, so bfloat16 code ran for float16",
    "autocast cache-key pull-request")
cpp("c092", "tinygrad/tinygrad#16618", "state", "parameter updated inside the function, not returned",
    "the assignment happened in the first call and was dropped on replay",
    "inplace replay sgd")
cpp("c095", "pytorch/pytorch#114338", "grad", "grad mode inside and outside of the function",
    "outputs of equal value but different requires_grad were merged into one",
    "no_grad enable_grad cse")
cpp("c097", "pytorch/pytorch#96136", "state", "recomputation must not repeat side effects",
    "batch norm statistics were updated a second time while recomputing",
    "recompute batchnorm side-effect")
