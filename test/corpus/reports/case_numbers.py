"""Cases about numbers: integers that wrap, promotion, rounding, NaN and infinities, reductions."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing import Tuple

from case_table import EXACT, INF, case, ints, randn


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


@case("c074", "pytorch/pytorch#100466", "nan", "comparison result used as a number",
      "vector comparisons gave a mask of all one bits that was used as a float and became NaN",
      "bool mask arithmetic", mode="script", tol=EXACT)
def c074():
    def f(x, y):
        return x * (x >= 0), (x > y).to(torch.float32) + (x < y), (x == y) * 2.5, (x > 0).sum(1), (x >= y) & (x != 0), (x > y) | (y > 0), ~(x > y), (x > 0) + (y > 0)
    return f, [(randn(150, 3, 19), randn(151, 3, 19))]
