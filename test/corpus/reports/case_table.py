"""Registers the cases of cases.py, and makes their random data."""
from typing import NamedTuple

import torch
from torch import Tensor

CASES, CPP = {}, {}
EXACT = (0.0, 0.0)
INF, NAN = float("inf"), float("nan")


class Case:
    def __init__(self, **kw):
        self.__dict__.update(kw)


def case(id, source, kind, title, wrong, tags="", mode="trace", tol=(1e-5, 1e-6),
         compare="", grad_inputs=(), grad_params=False, mutated=(), state=False,
         train=False, seed=None, policy=False):
    """Registers a function that returns (module or function, [inputs of set 0, ...])."""
    def deco(build):
        assert id not in CASES and id not in CPP, id
        CASES[id] = Case(id=id, source=source, kind=kind, title=title, wrong=wrong,
                         tags=tags.split(), mode=mode, tol=tol, compare=compare.split(),
                         grad_inputs=list(grad_inputs), grad_params=grad_params,
                         mutated=list(mutated), state=state, train=train, seed=seed,
                         policy=policy, build=build)
        return build
    return deco


def cpp(id, source, kind, title, wrong, tags=""):
    """A case that exists only as cpp/ID.cpp."""
    assert id not in CASES and id not in CPP, id
    CPP[id] = Case(id=id, source=source, kind=kind, title=title, wrong=wrong,
                   tags=tags.split())


def rng(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape, dtype=torch.float32):
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64).to(dtype)


def ints(seed, low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=rng(seed)).to(dtype)


class Pair(NamedTuple):
    first: Tensor
    second: Tensor
