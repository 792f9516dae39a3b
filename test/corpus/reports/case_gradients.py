"""Cases about gradients."""
import torch
from torch import Tensor, nn

from case_table import INF, case, randn, rng


@case("c031", "jax-ml/jax#38097", "grad", "gradient of log(exp(x)) where exp overflows or underflows",
      "log(exp(x)) was replaced by x, so the gradient was 1 everywhere",
      "algebraic overflow", tol=(1e-6, 1e-7), grad_inputs=[0])
def c031():
    def f(x):
        return torch.log(torch.exp(x)), torch.log1p(torch.expm1(x)), torch.sqrt(torch.square(x))
    return f, [(torch.tensor([0.5, 88.0, 89.0, 120.0, -104.0, -87.5, 0.0, -2.0]),)]


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
