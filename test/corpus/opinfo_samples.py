"""Chooses samples of one operator's database entry, and writes their cases into one archive."""
import os
import re

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from archives import reason, strip_debug
from opinfo_case import OUTPUT_FACTOR, SEED, Cases, call_seeded, gradients, make_case
from tensors import describe, dtype_name, exact_copy, reference_dtype, same, tensors_of


def bind(callee, sample, dtype=None, to=None):
    """(function of the sample's tensors alone, those tensors).  With `to`, dtype
    arguments equal to `dtype` are replaced by it."""
    leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    where = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def fn(*tensors):
        filled = list(leaves)
        if to is not None:
            filled = [to if isinstance(x, torch.dtype) and x == dtype else x for x in filled]
        for i, t in zip(where, tensors):
            filled[i] = t
        first, args, kwargs = tree_unflatten(filled, spec)
        return callee(first, *args, **kwargs)

    return fn, [leaves[i] for i in where]


def pick(items, count):
    """`count` of the items, spread evenly, the first always among them."""
    if len(items) <= count:
        return items
    step = (len(items) - 1) / max(count - 1, 1)
    return [items[i] for i in sorted({round(k * step) for k in range(count)})]


def tensors_in(sample):
    leaves = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return [x for x in leaves if isinstance(x, torch.Tensor)]


def input_bytes(sample):
    return sum(t.numel() * t.element_size() for t in tensors_in(sample))


def changed(sample, other):
    """`other` if some strided tensor got other strides, else None."""
    pairs = zip(tensors_in(sample), tensors_in(other))
    return other if any(a.stride() != b.stride() for a, b in pairs) else None


def noncontiguous(sample):
    """The sample with every tensor laid out with gaps, or None."""
    try:
        return changed(sample, sample.noncontiguous())
    except Exception:  # noqa: BLE001 - sparse and other layouts
        return None


def channels_last(sample):
    """The sample with its 4-D tensors in channels-last order, or None."""
    def lay(t):
        if isinstance(t, torch.Tensor) and t.dim() == 4 and min(t.shape[1:]) > 1:
            return t.contiguous(memory_format=torch.channels_last)
        return t
    try:
        return changed(sample, sample.transform(lay))
    except Exception:  # noqa: BLE001
        return None


def identity_process(sample):
    """True if the sample's output_process_fn_grad leaves its argument alone."""
    token = object()
    try:
        return sample.output_process_fn_grad(token) is token
    except Exception:  # noqa: BLE001 - it wanted a real output
        return False


def plans(op, sample, first):
    """The (kind, callable) pairs to try on one sample."""
    out = [("call", op.get_op())]
    if not identity_process(sample):
        def processed(*a, **k):
            return sample.output_process_fn_grad(op.get_op()(*a, **k))
        out.append(("processed", processed))
    inplace = op.get_inplace()
    if inplace is not None and not sample.broadcasts_input and isinstance(sample.input, torch.Tensor):
        def functional(x, *a, **k):
            y = x.clone()
            inplace(y, *a, **k)
            return y
        out.append(("inplace", functional))
        if first:
            out.append(("mutate", inplace))
    return out


def to_do(op, dtype, first_dtype, wants_grad, count, args, skip):
    """What to export: a list of (sample index, original sample, sample to use,
    [(kind, callable)])."""
    samples, seen, large, only_large = {}, set(), [], False
    torch.manual_seed(SEED)
    for index, s in enumerate(op.sample_inputs("cpu", dtype, requires_grad=wants_grad)):
        if index >= args.scan:
            break
        if input_bytes(s) > args.max_bytes:
            large.append((input_bytes(s), index, s))
        elif s.summary() not in seen:
            seen.add(s.summary())
            samples[index] = s
    if large and not samples and first_dtype:       # rather a large sample than none
        size, index, s = min(large, key=lambda x: x[:2])
        if size <= OUTPUT_FACTOR * args.max_bytes:
            samples[index], only_large = s, True
    if len(large) > only_large:
        skip(dtype, f"{len(large) - only_large} samples have larger inputs than the limit")
    if only_large:
        return [(i, s, s, [("call", op.get_op())]) for i, s in samples.items()]
    chosen = pick(list(samples.items()), count)
    todo = [(i, s, s, plans(op, s, n == 0)) for n, (i, s) in enumerate(chosen)]
    for kind, change in (("noncontig", noncontiguous), ("channels_last", channels_last)):
        for i, s in samples.items():
            other = change(s)
            if other is not None:
                todo.append((i, s, other, [(kind, op.get_op())]))
                break
    return todo


def summary(sample):
    text = sample.summary().replace(', device="cpu"', "").replace("SampleInput(", "")
    return re.sub(r"0x[0-9a-f]+", "0x..", text.split(", broadcasts_input=")[0])[:300]


def export_op(op, dtypes, counts, args, path):
    """Write one operator's archive; return its index entry and the skips."""
    cases, skipped, unsupported = [], [], []

    def skip(dtype, why, kind="*", sample=None):
        skipped.append({"op": op.full_name, "dtype": dtype_name(dtype), "kind": kind,
                        "sample": sample, "reason": why})

    for dtype in dtypes:
        if not op.supports_dtype(dtype, "cpu"):
            unsupported.append(dtype_name(dtype))
            continue
        wants_grad = (op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
                      and dtype in op.supported_backward_dtypes("cpu"))
        try:
            todo = to_do(op, dtype, dtype == dtypes[0], wants_grad, counts[dtype], args, skip)
        except Exception as e:  # noqa: BLE001
            skip(dtype, "no samples: " + reason(e))
            continue
        for index, original, sample, kinds in todo:
            for kind, callee in kinds:
                try:
                    fn, tensors = bind(callee, sample)
                    # A re-laid sample has lost its requires_grad flags; the original has them.
                    diff = [i for i, t in enumerate(tensors_in(original)) if wants_grad and t.requires_grad]
                    if kind == "mutate" or (kind != "processed" and not identity_process(sample)):
                        diff = []
                    double_fn = None
                    if reference_dtype(dtype) not in (None, dtype):
                        double_fn = bind(callee, sample, dtype, reference_dtype(dtype))[0]
                    c, entry = make_case(op, fn, tensors, diff, dtype, kind, summary(sample), double_fn,
                                         args.max_bytes)
                    if kind == "call" and any(not t.is_contiguous() for t in c.inputs):
                        entry["noncontiguous_inputs"] = True
                    cases.append((c, {"id": f"c{len(cases):04d}", "sample": index, **entry}))
                except Exception as e:  # noqa: BLE001
                    skip(dtype, reason(e), kind, index)
    entry = {"op": op.name, "variant": op.variant_test_name, "name": op.full_name,
             "aten_name": op.aten_name, "gradcheck_nondet_tol": op.gradcheck_nondet_tol,
             "unsupported_dtypes": unsupported, "file": None, "bytes": 0, "cases": [e for _, e in cases]}
    if cases:
        box = Cases()
        for c, e in cases:
            box.add_module(e["id"], c)
        torch.jit.script(box).save(path)
        if not args.keep_debug:
            strip_debug(path)
        entry.update(file="ops/" + os.path.basename(path), bytes=os.path.getsize(path))
        entry["reload"] = check_file(path, [e for _, e in cases])
    return entry, skipped


def check_file(path, entries):
    """Load an archive again and evaluate every case; 'ok' or the first trouble."""
    module = torch.jit.load(path)
    with torch.jit.optimized_execution(False):
        for e in entries:
            c = getattr(module, e["id"])
            given = [exact_copy(t) for t in c.inputs]
            if [describe(t) for t in given] != e["inputs"]:
                return e["id"] + ": inputs came back with other shapes or strides"
            with torch.no_grad():
                got = tensors_of(call_seeded(c.fn, given))
            if c.shape_only:
                good = [t.shape for t in got] == [t.shape for t in c.outputs]
            else:
                good = same(got, c.outputs, c.rtol, c.atol)
            good = good and same([given[i] for i in c.mutated], c.mutated_after, c.rtol, c.atol)
            if good and c.diff_inputs:
                g = gradients(c.fn, c.inputs, c.diff_inputs, c.cotangents)[3]
                good = same(g, c.grads, max(c.rtol, 1e-5), max(c.atol, 1e-6))
            if not good:
                return e["id"] + ": differs after loading"
    return "ok"
