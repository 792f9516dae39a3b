"""Exports one model: TorchScript, torch.export, its inputs and eager outputs, and what each of these is worth."""
import collections
import copy
import os
import time
import warnings
import zlib

import torch
from torch import nn

from archives import all_nodes, reason, strip_debug
from zoo.registry import SEED, Flat, flat


def liven(model):
    """Draw anew what a library left constant, so that every branch counts."""
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point() and p.numel() > 1 and bool((p == p.flatten()[0]).all()):
                p.add_(0.1 * torch.randn(p.shape))
        for m in model.modules():
            if getattr(m, "running_mean", None) is not None:
                m.running_mean.copy_(0.1 * torch.randn(m.running_mean.shape))
                m.running_var.copy_(1 + 0.2 * torch.rand(m.running_var.shape))


def describe(t):
    d = {"shape": list(t.shape), "dtype": str(t.dtype).replace("torch.", "")}
    x = t.double()
    return {**d, "sum": x.sum().item(), "abs_sum": x.abs().sum().item()}


def difference(got, want):
    """Largest difference, relative to the largest value; None if shapes differ."""
    got, want = flat(got), flat(want)
    if [t.shape for t in got] != [t.shape for t in want]:
        return None
    worst = 0.0
    for a, b in zip(got, want):
        if a.numel():
            scale = max(b.double().abs().max().item(), 1e-12)
            worst = max(worst, (a.double() - b.double()).abs().max().item() / scale)
    return worst


class Record(nn.Module):
    """Only buffers: what NAME.io.pt holds."""
    __module__ = "__main__"     # an archive holds class names, and these shall not depend on the file they are in


def save_io(path, **groups):
    box = Record()
    for prefix, tensors in groups.items():
        for i, t in enumerate(tensors):
            box.register_buffer(f"{prefix}{i}", t.detach().clone())
    torch.jit.script(box).save(path)
    strip_debug(path)


def trace(net, inputs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced = torch.jit.trace(net, inputs, check_trace=False, strict=False)
    return traced, sum(issubclass(w.category, torch.jit.TracerWarning) for w in caught)


def script(net):
    if isinstance(net, Flat):
        raise TypeError("not for models that are called by keyword")
    return torch.jit.script(net), 0


def export_ts(make, path, tests, keep_debug):
    """Save what make() returns, load it again and compare it with eager."""
    inputs, out, alt, alt_out = tests
    rep = {"ok": False}
    try:
        began = time.time()
        with torch.no_grad():
            module, warned = make()
            rep.update(seconds=round(time.time() - began, 2), tracer_warnings=warned)
            module.save(path)
            if not keep_debug:
                strip_debug(path)
            loaded = torch.jit.load(path)
            # Before the first run: one without optimisation leaves calls behind in
            # what inlined_graph shows afterwards.
            kinds = collections.Counter(n.kind() for n in all_nodes(loaded.inlined_graph))
            with torch.jit.optimized_execution(False):
                rep["error"] = difference(flat(loaded(*inputs)), out)
                try:
                    rep["alt_error"] = difference(flat(loaded(*alt)), alt_out)
                except Exception as e:  # noqa: BLE001
                    rep["alt_why"] = reason(e)
        rep["ok"] = rep["error"] is not None and rep["error"] < 1e-5
        rep["any_batch"] = rep.get("alt_error") is not None and rep["alt_error"] < 1e-5
        rep["bytes"], rep["file"] = os.path.getsize(path), os.path.basename(path)
        rep["nodes"] = sum(kinds.values())
        rep["ops"] = {k: n for k, n in sorted(kinds.items()) if not k.startswith("prim::")}
        rep["prim"] = {k: n for k, n in sorted(kinds.items()) if k.startswith("prim::")}
    except Exception as e:  # noqa: BLE001
        rep["why"] = reason(e)
        if os.path.exists(path):
            os.remove(path)
    return rep


def train_report(net, inputs, eval_out, path, keep_debug):
    """Does a trace in train mode compute what eager training computes, with the
    same seed?  If so, and if a path is given, the trace is saved there."""
    kinds = collections.Counter(type(m).__name__ for m in net.modules())
    rep = {"batch_norm": sum(n for k, n in kinds.items() if "BatchNorm" in k),
           "dropout": sum(1 for m in net.modules() if getattr(m, "p", 0) and "Drop" in type(m).__name__)}
    try:
        net = copy.deepcopy(net).train()
        state = copy.deepcopy(net.state_dict())
        torch.manual_seed(SEED)
        want = flat(net(*inputs))
        wanted = [t.detach().clone() for t in want]
        sum(t.float().sum() for t in want if t.requires_grad).backward()
        got_grad = sum(p.grad is not None for p in net.parameters())
        rep["params_with_grad"] = f"{got_grad}/{sum(1 for _ in net.parameters())}"
        net.load_state_dict(state)
        traced, _ = trace(net, inputs)
        net.load_state_dict(state)              # the trace shares and has updated the buffers
        torch.manual_seed(SEED)
        with torch.jit.optimized_execution(False):
            got = traced(*inputs)
        rep["error"] = difference(got, wanted)
        rep["differs_from_eval"] = (difference(wanted, eval_out) or 0) > 1e-5
        rep["meaningful"] = rep["error"] is not None and rep["error"] < 1e-4
        if path and rep["meaningful"]:
            net.load_state_dict(state)
            traced.save(path)
            if not keep_debug:
                strip_debug(path)
            rep.update(file=os.path.basename(path), bytes=os.path.getsize(path))
    except Exception as e:  # noqa: BLE001
        rep.update(meaningful=False, why=reason(e))
    return rep


def export_pt2(net, inputs, path, keep_debug):
    rep = {}
    for dynamic in (True, False):
        shapes = tuple({0: torch.export.Dim("batch", min=1, max=4096)} for _ in inputs) if dynamic else None
        if dynamic and isinstance(net, Flat):
            shapes = (shapes,)                  # one *args parameter
        try:
            began = time.time()
            ep = torch.export.export(net, inputs, dynamic_shapes=shapes, strict=False)
            rep.update(ok=True, dynamic_batch=dynamic, seconds=round(time.time() - began, 2))
            for m in () if keep_debug else ep.graph_module.modules():
                if isinstance(m, torch.fx.GraphModule):
                    for n in m.graph.nodes:
                        n.meta.pop("stack_trace", None)
            rep["ops"] = dict(sorted(collections.Counter(
                str(n.target) for n in ep.graph.nodes if n.op == "call_function").items()))
            torch.export.save(ep, path)
            rep["bytes"] = os.path.getsize(path)
            return ep, rep
        except Exception as e:  # noqa: BLE001
            if os.path.exists(path):
                os.remove(path)
            rep["why_static" if dynamic else "why"] = reason(e)
    rep["ok"] = False
    return None, rep


def export_model(spec, outdir, formats, args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED + zlib.crc32(spec.name.encode()) % 100000)
    began = time.time()
    net = spec.build()
    liven(net)
    net.eval()
    inputs, alt = spec.make_inputs(spec.batch, 1), spec.make_inputs(spec.alt_batch, 2)
    for p in net.parameters():
        p.requires_grad_(p.is_floating_point())
    with torch.no_grad():
        out = flat(net(*inputs))
        t0 = time.time()
        again = flat(net(*inputs))
        eager_ms = (time.time() - t0) * 1e3
        alt_out = flat(net(*alt))
    if difference(again, out) != 0:
        raise RuntimeError("two eager runs differ")
    if not all(bool(t.isfinite().all()) for t in out if t.is_floating_point()):
        raise RuntimeError("the output is not finite")
    entry = {
        "name": spec.name, "source": spec.source, "suite": spec.suite, "batch": spec.batch,
        "alt_batch": spec.alt_batch, "params": sum(p.numel() for p in net.parameters()),
        "inputs": [{**describe(t), "range": i.range} for t, i in zip(inputs, spec.inputs)],
        "outputs": [describe(t) for t in out], "alt_outputs": [describe(t) for t in alt_out],
        "io": spec.name + ".io.pt", "eager_ms": round(eager_ms, 2), "build_s": round(time.time() - began, 2)}
    io_path = os.path.join(outdir, entry["io"])
    save_io(io_path, input=inputs, output=out, alt_input=alt, alt_output=alt_out)
    entry["io_bytes"] = os.path.getsize(io_path)

    tests = (inputs, out, alt, alt_out)
    if "ts" in formats:
        entry["ts"] = export_ts(lambda: trace(net, inputs), os.path.join(outdir, spec.name + ".pt"),
                                tests, args.keep_debug)
    if "script" in formats:
        entry["script"] = export_ts(lambda: script(net), os.path.join(outdir, spec.name + ".script.pt"),
                                    tests, args.keep_debug)
    if "pt2" in formats:
        path = os.path.join(outdir, spec.name + ".pt2")
        with torch.no_grad():
            ep, rep = export_pt2(net, inputs, path, args.keep_debug)
            if ep is not None:
                try:
                    run = torch.export.load(path).module()
                    rep["file"], rep["error"] = spec.name + ".pt2", difference(run(*inputs), out)
                    if rep["dynamic_batch"]:
                        rep["alt_error"] = difference(run(*alt), alt_out)
                except Exception as e:  # noqa: BLE001
                    rep["reload_why"] = reason(e)
        entry["pt2"] = rep

    if not args.no_train_check:
        path = os.path.join(outdir, spec.name + ".train.pt") if args.save_train else None
        entry["train"] = train_report(net, inputs, out, path, args.keep_debug)
    entry["total_s"] = round(time.time() - began, 2)
    return entry
