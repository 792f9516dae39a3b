"""Makes one operator case: traces the call, evaluates it in its dtype and in float64, with gradients.

What is compared has been through a file; whatever cannot be traced, reloaded or repeated is a Skip with its reason.
"""
import io
import warnings
from typing import List

import torch
from torch import nn
from torch.testing._comparison import default_tolerances

from archives import Skip, all_nodes, reason
from tensors import describe, dtype_name, exact_copy, reference_dtype, same, tensors_of

SEED = 20240229
# Outputs may have this many times --max-bytes, and so may the inputs of the one
# sample that is taken, for the first dtype, where all of an operator's are large.
OUTPUT_FACTOR = 12
# Operators whose result is uninitialised memory.
UNINITIALISED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
    "new_empty_strided", "resize_", "resize_as_",
}


class Function(nn.Module):
    """Carrier of the traced call.  The callable lives outside the module's
    attributes so that TorchScript does not try to compile it."""
    __module__ = "__main__"     # an archive holds class names, and these shall not depend on the file they are in
    _calls = {}

    def forward(self, *args):
        return Function._calls[id(self)](*args)


class Case(nn.Module):
    __module__ = "__main__"     # an archive holds class names, and these shall not depend on the file they are in
    inputs: List[torch.Tensor]
    outputs: List[torch.Tensor]
    ref_outputs: List[torch.Tensor]
    diff_inputs: List[int]
    diff_outputs: List[int]
    cotangents: List[torch.Tensor]
    grads: List[torch.Tensor]
    ref_grads: List[torch.Tensor]
    mutated: List[int]
    mutated_after: List[torch.Tensor]
    rtol: float
    atol: float
    random: bool
    shape_only: bool
    seed: int
    kind: str
    dtype: str
    summary: str


class Cases(nn.Module):
    """Root of an archive: a child for each case, and no forward()."""
    __module__ = "__main__"     # an archive holds class names, and these shall not depend on the file they are in


def call_seeded(fn, args):
    torch.manual_seed(SEED)
    return fn(*args)


def gradients(fn, inputs, diff, cotangents=None):
    """(diff_outputs, cotangents, outputs, grads) of fn at inputs.  A fixed
    random cotangent is drawn when none is given."""
    args = [exact_copy(t).requires_grad_(i in diff) for i, t in enumerate(inputs)]
    outs = tensors_of(call_seeded(fn, args))
    diff_outs = [i for i, o in enumerate(outs) if o.requires_grad]
    if not diff_outs:
        raise Skip("no output requires grad")
    if cotangents is None:
        gen = torch.Generator().manual_seed(SEED + 1)
        cotangents = []
        for i in diff_outs:
            kind = torch.complex128 if outs[i].dtype.is_complex else torch.float64
            cotangents.append(torch.randn(outs[i].shape, generator=gen, dtype=kind).to(outs[i].dtype))
    cots = [c.to(outs[i].dtype) for c, i in zip(cotangents, diff_outs)]
    torch.manual_seed(SEED)
    grads = torch.autograd.grad([outs[i] for i in diff_outs], [args[i] for i in diff], cots,
                                allow_unused=True)
    return diff_outs, cotangents, outs, list(grads)


def tolerances(op, dtype, outputs):
    """(rtol, atol, {test: [rtol, atol]}): the defaults of torch.testing for the
    outputs, widened by OpInfo's overrides for this dtype on the CPU; and those."""
    from torch.testing._internal.common_device_type import toleranceOverride
    from torch.testing._internal.opinfo.core import DecorateInfo
    rtol, atol = 0.0, 0.0
    for t in outputs:
        r, a = default_tolerances(t.dtype)
        rtol, atol = max(rtol, r), max(atol, a)
    overrides = {}
    for info in op.decorators:
        if not isinstance(info, DecorateInfo) or info.device_type not in (None, "cpu"):
            continue
        for deco in info.decorators:
            if isinstance(deco, toleranceOverride) and dtype in deco.d:
                tol = deco.d[dtype]
                overrides[f"{info.cls_name or '*'}.{info.test_name or '*'}"] = [tol.rtol, tol.atol]
    # Only the tests that compare plain eager results speak about the operator itself.
    for key, (r, a) in overrides.items():
        cls = key.split(".")[0]
        if cls in ("*", "TestCommon", "TestUnaryUfuncs", "TestBinaryUfuncs", "TestReductions",
                   "TestJit", "TestOpInfo", "TestConsistency"):
            rtol, atol = max(rtol, r), max(atol, a)
    return rtol, atol, overrides


def make_case(op, fn, inputs, diff, dtype, kind, text, double_fn, limit):
    """Trace fn, evaluate it and return (Case, index entry)."""
    with torch.no_grad():
        before = [exact_copy(t) for t in inputs]
        args = [exact_copy(t) for t in inputs]
        versions = [t._version for t in args]
        outputs = [exact_copy(t) for t in tensors_of(call_seeded(fn, args))]
        written = [i for i, t in enumerate(args) if t._version != versions[i]]
        after = [exact_copy(args[i]) for i in written]
        out_size = sum(t.numel() * t.element_size() for t in outputs)
        if out_size > OUTPUT_FACTOR * limit:
            raise Skip(f"outputs of {out_size} bytes are over the limit")
        again = [exact_copy(t) for t in tensors_of(call_seeded(fn, [exact_copy(t) for t in inputs]))]
        torch.manual_seed(SEED + 7)
        other = [exact_copy(t) for t in tensors_of(fn(*[exact_copy(t) for t in inputs]))]
    shape_only = op.name in UNINITIALISED
    if shape_only:
        outputs = [torch.zeros_like(t) for t in outputs]
        after = [torch.zeros_like(t) for t in after]
    random = not shape_only and same(outputs, again) and not same(outputs, other)
    nondeterministic = not shape_only and not same(outputs, again)
    if nondeterministic:
        raise Skip("two runs from one seed differ")

    # Trace.  The example inputs are copies, since tracing runs the call.
    holder = Function()
    Function._calls[id(holder)] = lambda *a: (lambda o: o[0] if len(o) == 1 else tuple(o))(
        tensors_of(fn(*a)))
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(SEED)
        traced = torch.jit.trace(holder.eval(), tuple(exact_copy(t) for t in inputs),
                                 check_trace=False)
    warned = sum(issubclass(w.category, torch.jit.TracerWarning) for w in caught)
    names = sorted({n.kind() for n in all_nodes(traced.inlined_graph)
                    if not n.kind().startswith("prim::")})

    try:        # whatever is compared below has been through a file
        loaded = torch.jit.load(io.BytesIO(traced.save_to_buffer()))
    except Exception as e:
        raise Skip("saved, but cannot be loaded again: " + reason(e)) from e
    rtol, atol, overrides = tolerances(op, dtype, outputs)
    with torch.no_grad(), torch.jit.optimized_execution(False):
        got = tensors_of(call_seeded(loaded, [exact_copy(t) for t in inputs]))
    if shape_only:
        ok = [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in outputs]
        exact = ok
    else:
        exact = same(got, outputs)
        ok = exact or same(got, outputs, rtol, atol)
    if not ok:
        if [t.dtype for t in got] != [t.dtype for t in outputs]:
            raise Skip("the trace, saved and loaded, gives another dtype than eager")
        raise Skip("the trace, saved and loaded, gives other values than eager")

    c = Case()
    c.fn = traced
    c.inputs, c.outputs, c.mutated, c.mutated_after = before, outputs, written, after
    c.rtol, c.atol, c.random, c.shape_only, c.seed = rtol, atol, random, shape_only, SEED
    c.kind, c.dtype, c.summary = kind, dtype_name(dtype), text
    c.ref_outputs, c.diff_inputs, c.diff_outputs, c.cotangents = [], [], [], []
    c.grads, c.ref_grads = [], []
    entry = {"kind": kind, "dtype": dtype_name(dtype), "inputs": [describe(t) for t in before],
             "outputs": [describe(t) for t in outputs], "args": text, "aten": names,
             "rtol": rtol, "atol": atol, "exact": exact}

    # Gradients in the case's own dtype.
    if diff and not shape_only:
        try:
            outs_i, cots, _, grads = gradients(fn, inputs, diff)
            undefined = [i for i, g in zip(diff, grads) if g is None]
            kept = [(i, exact_copy(g)) for i, g in zip(diff, grads) if g is not None]
            with torch.jit.optimized_execution(False):
                _, _, _, traced_grads = gradients(loaded, inputs, diff, cots)
            mine = [g for g in traced_grads if g is not None]
            if not same(mine, [g for _, g in kept], max(rtol, 1e-5), max(atol, 1e-6)):
                raise Skip("gradients through the traced function differ from eager's")
            c.diff_inputs, c.grads = [i for i, _ in kept], [g for _, g in kept]
            c.diff_outputs, c.cotangents = outs_i, cots
            if undefined:
                entry["grad_undefined"] = undefined
            entry["grad_inputs"] = c.diff_inputs
        except Exception as e:  # noqa: BLE001 - the reason goes to the index
            c.diff_inputs, c.diff_outputs, c.cotangents, c.grads = [], [], [], []
            entry["grad_missing"] = reason(e)

    # The same values in float64 are the reference.
    if double_fn is not None and not random and not shape_only:
        try:
            big = [exact_copy(t).to(reference_dtype(dtype)) if t.dtype == dtype else exact_copy(t)
                   for t in before]
            if c.diff_inputs:
                _, _, outs, grads = gradients(double_fn, big, c.diff_inputs, c.cotangents)
                if any(g is None for g in grads):
                    raise Skip("a float64 gradient is undefined")
                c.ref_grads = [exact_copy(g) for g in grads]
            else:
                with torch.no_grad():
                    outs = tensors_of(call_seeded(double_fn, big))
            c.ref_outputs = [exact_copy(t) for t in outs]
            if [t.shape for t in c.ref_outputs] != [t.shape for t in outputs]:
                raise Skip("float64 output shapes differ")
        except Exception as e:  # noqa: BLE001
            c.ref_outputs, c.ref_grads = [], []
            entry["ref_missing"] = reason(e)
        entry["ref"] = bool(c.ref_outputs)

    for key, value in (("random", random), ("shape_only", shape_only), ("mutated", written),
                       ("tracer_warnings", warned), ("opinfo_tolerances", overrides)):
        if value:
            entry[key] = value
    del Function._calls[id(holder)]
    return c, entry
