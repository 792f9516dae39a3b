"""The table of models, and how their inputs are made.

Shapes are given without the batch dimension, which always comes first. Weights and inputs come from fixed seeds that
depend on the model's name alone, so that what is exported does not depend on what else is.
"""
import zlib

import torch
from torch import nn

SEED = 20240229
MODELS = {}             # name -> Model, in order of registration
VOCAB, LEN = 500, 24    # of the small language models


class Floats:
    """Standard normal values."""
    def __init__(self, *shape, dtype=torch.float32):
        self.shape, self.dtype, self.range = shape, dtype, "normal(0,1)"

    def make(self, batch, gen):
        return torch.randn((batch, *self.shape), generator=gen).to(self.dtype)


class Ids:
    """Integers of [low, high)."""
    def __init__(self, *shape, high, low=0):
        self.shape, self.dtype, self.low, self.high = shape, torch.int64, low, high
        self.range = f"[{low},{high})"

    def make(self, batch, gen):
        return torch.randint(self.low, self.high, (batch, *self.shape), generator=gen)


class Mask:
    """Ones, with zeros at the end of every row but the first: padded sentences."""
    def __init__(self, length):
        self.shape, self.dtype, self.range = (length,), torch.int64, "{0,1}, zeros at the end"

    def make(self, batch, gen):
        keep = torch.randint(self.shape[0] // 2, self.shape[0], (batch, 1), generator=gen)
        keep[0] = self.shape[0]
        return (torch.arange(self.shape[0])[None] < keep).to(torch.int64)


class Model:
    def __init__(self, name, source, suite, build, inputs, batch=2, alt_batch=3):
        self.name, self.source, self.suite = name, source, suite
        self.build, self.inputs, self.batch, self.alt_batch = build, inputs, batch, alt_batch

    def make_inputs(self, batch, salt):
        gen = torch.Generator().manual_seed(SEED + zlib.crc32(self.name.encode()) % 100000 + salt)
        return tuple(i.make(batch, gen) for i in self.inputs)


def add(name, source, build, *inputs, suite="small", **kw):
    assert name not in MODELS, name
    MODELS[name] = Model(name, source, suite, build, inputs, **kw)


def flat(out):
    """All tensors of a result, as a tuple."""
    return tuple(t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor))


class Flat(nn.Module):
    """Calls a model by keyword and returns its tensors: one, or a tuple."""
    __module__ = "__main__"     # an archive holds class names, and these shall not depend on the file they are in
    def __init__(self, model, names=None, pick=None, **fixed):
        super().__init__()
        self.model, self.names, self.pick, self.fixed = model, names, pick, fixed

    def forward(self, *args):
        if self.names is None:
            out = self.model(*args, **self.fixed)
        else:
            out = self.model(**dict(zip(self.names, args)), **self.fixed)
        if self.pick is not None:
            out = tuple(out[k] for k in self.pick)
        out = flat(out)
        return out[0] if len(out) == 1 else out
