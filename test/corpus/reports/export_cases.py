#!/usr/bin/env python3
"""Regression cases for graphopt, each suggested by a public bug report of another compiler.

    python export_cases.py OUT [--only ID ...]      export and verify
    python export_cases.py --list

Every Python case NAME gives two files and a line of OUT/index.json:

  NAME.pt     TorchScript (traced or scripted, see "mode") of a freshly built module
  NAME.io.pt  a scripted module that only carries buffers.  Set 0 has no prefix, set k
              has the prefix "s<k>_".  The sets are to be run IN ORDER ON ONE INSTANCE:
    inputJ      arguments (strides as given; keep them)
    outputJ     what eager returned
    mutatedJ    input J after the call, for the J of "mutated"
    cotJ        cotangent of output J, if it requires grad in that set (if none does, all
                gradients of the set are zero); "grad_outputs" has the J of set 0
    gradJ       d(sum_k <outputk, cotk>) / d inputJ, for the J of "grad_inputs"
    pgradJ      the same for parameter J of named_parameters(), if "grad_params"
    stateJ      buffer J of named_buffers() after the last set, if "state" (no prefix)

If "seed" is not null: torch.manual_seed(seed + k) right before set k.
"compare" says what counts: values (always), dtype (always), strides, sign0 (sign of
zeros), state.  "tol" is [rtol, atol]; [0, 0] means bit for bit, NaN equal to NaN.
"policy" is true where a compiler may have a defensible reason to differ.
NAME.io.pt also has this as attributes, so that C++ needs no JSON: meta_sets, meta_seed
(-1: none), meta_rtol, meta_atol, meta_mutated, meta_grad_inputs, meta_grad_outputs,
meta_grad_params, meta_state, meta_train, meta_strides, meta_sign0, meta_policy.

Reports are summarised in our own words; the code is ours.
"""
import argparse
import json
import os
import re
import sys
import warnings
from typing import List

import torch
from torch import Tensor, nn

import cases  # noqa: F401 - registers them
from case_table import CASES, CPP, randn


# --------------------------------------------------------------------------

class Fn(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


class IO(nn.Module):
    def forward(self) -> int:
        return 0


def keep(t):
    """Copy with the same strides and offset, in storage of its own."""
    t = t.detach()
    r = torch.empty(0, dtype=t.dtype)
    return r.set_(t.untyped_storage().clone(), t.storage_offset(), t.size(), t.stride())


def fresh(c):
    made, sets = c.build()
    module = made if isinstance(made, nn.Module) else Fn(made)
    return module.train(c.train), sets


def flat(out):
    return [out] if isinstance(out, Tensor) else list(out)


def cotangent(c, k, j, t):
    return randn(7000 + 97 * int(c.id[1:]) + 13 * k + j, *t.shape).to(t.dtype)


def run(c, module, sets, modes=("values",)):
    """Runs all sets in order on one instance; returns {buffer name: tensor}."""
    got = {}
    for k, inputs in enumerate(sets):
        pre = "" if k == 0 else f"s{k}_"
        args = [keep(t) for t in inputs]
        for j, t in enumerate(inputs):
            got[f"{pre}input{j}"] = keep(t)
        if c.seed is not None:
            torch.manual_seed(c.seed + k)
        wants = bool(c.grad_inputs or c.grad_params)
        for j in c.grad_inputs:
            args[j].requires_grad_()
        with torch.set_grad_enabled(wants):
            outs = flat(module(*args))
        for j, t in enumerate(outs):
            got[f"{pre}output{j}"] = keep(t)
        for j in c.mutated:
            got[f"{pre}mutated{j}"] = keep(args[j])
        if wants:
            diff = [j for j, t in enumerate(outs) if t.requires_grad]
            leaves = [args[j] for j in c.grad_inputs]
            names = [f"grad{j}" for j in c.grad_inputs]
            if c.grad_params:
                for j, (_, p) in enumerate(module.named_parameters()):
                    leaves.append(p)
                    names.append(f"pgrad{j}")
            cots = [cotangent(c, k, j, outs[j]) for j in diff]
            for j, t in zip(diff, cots):
                got[f"{pre}cot{j}"] = t
            for name, leaf, g in zip(names, leaves, torch.autograd.grad([outs[j] for j in diff], leaves, cots, allow_unused=True)):
                got[pre + name] = keep(torch.zeros_like(leaf) if g is None else g)
    if c.state:
        for j, (_, b) in enumerate(module.named_buffers()):
            got[f"state{j}"] = keep(b)
    return got


def differs(c, want, got, exact=False):
    """'' or the first difference between two results of run()."""
    if set(want) != set(got):
        return "names " + str(sorted(set(want) ^ set(got)))
    for n, a in want.items():
        b = got[n]
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{n}: {a.dtype} {tuple(a.shape)} / {b.dtype} {tuple(b.shape)}"
        if "strides" in c.compare and "output" in n and a.stride() != b.stride():
            return f"{n}: strides {a.stride()} / {b.stride()}"
        rtol, atol = (0.0, 0.0) if exact or not a.is_floating_point() else c.tol
        if not torch.allclose(a.double(), b.double(), rtol, atol, equal_nan=True):
            return f"{n}: {a.flatten()[:8].tolist()} / {b.flatten()[:8].tolist()}"
        if "sign0" in c.compare and a.is_floating_point() and not torch.equal(
                torch.signbit(a) & ~a.isnan(), torch.signbit(b) & ~b.isnan()):
            return f"{n}: sign of zero"
    return ""


def describe(t):
    return {"shape": list(t.shape), "dtype": str(t.dtype)[6:], "strides": list(t.stride())}


def export(c, out):
    module, sets = fresh(c)
    want = run(c, module, sets)
    again, sets2 = fresh(c)
    bad = differs(c, want, run(c, again, sets2), exact=True)
    assert not bad, f"eager does not reproduce itself: {bad}"

    source, sets3 = fresh(c)
    if c.mode == "script":
        ts = torch.jit.script(source.fn if isinstance(source, Fn) else source)
    else:
        if c.seed is not None:
            torch.manual_seed(c.seed)
        ts = torch.jit.trace(source, tuple(keep(t) for t in sets3[0]), check_trace=False)
    path, io_path = os.path.join(out, c.id + ".pt"), os.path.join(out, c.id + ".io.pt")
    ts.save(path)
    io = IO()
    for n, t in want.items():
        io.register_buffer(n, t)
    outs0 = sum(1 for n in want if re.fullmatch(r"output\d+", n))
    for n, v, t in (("sets", len(sets), int), ("seed", -1 if c.seed is None else c.seed, int), ("rtol", c.tol[0], float),
                    ("atol", c.tol[1], float), ("mutated", c.mutated, List[int]), ("grad_inputs", c.grad_inputs, List[int]),
                    ("grad_outputs", [j for j in range(outs0) if f"cot{j}" in want], List[int]),
                    ("grad_params", c.grad_params, bool), ("state", c.state, bool), ("train", c.train, bool),
                    ("strides", "strides" in c.compare, bool), ("sign0", "sign0" in c.compare, bool), ("policy", c.policy, bool)):
        setattr(io, "meta_" + n, torch.jit.Attribute(v, t))
    torch.jit.script(io).save(io_path)

    back = dict(torch.jit.load(io_path).named_buffers())
    for n, t in want.items():
        assert back[n].stride() == t.stride(), f"{n}: strides lost in {io_path}"
    loaded_sets = []
    for k in range(len(sets)):
        pre = "" if k == 0 else f"s{k}_"
        loaded_sets.append(tuple(back[f"{pre}input{j}"] for j in range(len(sets[k]))))
    with torch.jit.optimized_execution(False):
        bad = differs(c, back, run(c, torch.jit.load(path).train(c.train), loaded_sets))
    interp = "ok" if not bad else bad
    default = "ok"
    try:
        profiled = torch.jit.load(path).train(c.train)
        for r in range(1 if c.state else 4):
            bad = differs(c, back, run(c, profiled, loaded_sets))
            if bad:
                default = f"run {r}: {bad}"
                break
    except Exception as e:
        default = "error: " + str(e).strip().splitlines()[-1][:200]
    return {
        "id": c.id, "title": c.title, "source": c.source, "kind": c.kind, "tags": c.tags,
        "wrong": c.wrong, "mode": c.mode, "check": "grad" if c.grad_inputs or c.grad_params else "state" if c.state else "inference",
        "sets": len(sets), "train": c.train, "seed": c.seed, "policy": c.policy, "tol": list(c.tol), "compare": c.compare,
        "mutated": c.mutated, "grad_inputs": c.grad_inputs, "grad_params": c.grad_params,
        "grad_outputs": [j for j in range(outs0) if f"cot{j}" in want], "state": c.state,
        "parameters": [n for n, _ in ts.named_parameters()] if c.grad_params else [],
        "buffers": [n for n, _ in module.named_buffers()] if c.state else [],
        "inputs": [[describe(t) for t in s] for s in sets], "outputs": [describe(want[f"output{j}"]) for j in range(outs0)],
        "torchscript_interpreter": interp, "torchscript_default_executor": default,
    }


def log_lines():
    for c in sorted([*CASES.values(), *CPP.values()], key=lambda c: c.id):
        where = "cpp" if c.id in CPP else c.mode
        yield f"{c.id} | {c.source} | {c.title}: {c.wrong} | {c.kind} ({where})"


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("out", nargs="?")
    p.add_argument("--only", nargs="*", metavar="ID")
    p.add_argument("--list", action="store_true")
    a = p.parse_args()
    if a.list:
        print("\n".join(log_lines()))
        return 0
    if not a.out:
        p.error("OUT is missing")
    os.makedirs(a.out, exist_ok=True)
    index, failed = [], 0
    for c in sorted(CASES.values(), key=lambda c: c.id):
        if a.only and c.id not in a.only:
            continue
        try:
            line = export(c, a.out)
            index.append(line)
            note = "" if line["torchscript_interpreter"] == "ok" else "  INTERPRETER " + line["torchscript_interpreter"]
            if line["torchscript_default_executor"] != "ok":
                note += "  DEFAULT " + line["torchscript_default_executor"]
            print(f"{c.id} ok{note}", file=sys.stderr)
        except Exception as e:
            failed += 1
            print(f"{c.id} FAILED {type(e).__name__}: {str(e)[:600]}", file=sys.stderr)
    with open(os.path.join(a.out, "index.json"), "w") as f:
        json.dump(index, f, indent=1)
    print(f"{len(index)} exported, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
