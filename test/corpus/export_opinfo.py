#!/usr/bin/env python3
"""Export PyTorch's own operator test database (OpInfo) as TorchScript test cases.

graphopt compares what it does with an operator against eager PyTorch.  The
operators, their argument combinations and their awkward shapes should not be
chosen by graphopt's authors, so this tool takes them from
`torch.testing._internal.common_methods_invocations.op_db`, the database that
PyTorch's own test suite runs on.

For each entry of op_db it writes one TorchScript archive, OUTDIR/ops/NAME.pt,
and for all of them one OUTDIR/index.json.  An archive has no forward(); its
children c0000, c0001, ... are the cases.  A case has a child and attributes:

  fn            traced module; fn.forward(Tensor, ...) -> Tensor, or a tuple of
                tensors if there are several outputs.  All non-tensor arguments
                are baked in; tensors in lists became separate inputs.
  inputs        List[Tensor]  arguments of fn, with their original strides
  outputs       List[Tensor]  what eager gives in the case's dtype
  ref_outputs   List[Tensor]  what eager gives on the same values as float64
                              or complex128 ([] where there is no such reference)
  diff_inputs   List[int]     inputs that require grad ([]: no gradients here)
  diff_outputs  List[int]     outputs that the cotangents belong to
  cotangents    List[Tensor]  one for each of diff_outputs
  grads         List[Tensor]  one for each of diff_inputs: d<outputs, cot>/d input
  ref_grads     List[Tensor]  the same in float64, or []
  mutated       List[int]     inputs that the call writes to
  mutated_after List[Tensor]  their contents after the call
  rtol, atol    float         torch.testing's default for the output dtypes, or
                              OpInfo's own tolerance where that is looser
  random        bool          depends on the generator: seed with `seed` first
  shape_only    bool          contents are uninitialised: compare shape and dtype
  seed          int           torch::manual_seed(seed) was called before the run
  kind, dtype, summary  str   kind is one of
      call       op(*args)
      noncontig  op(*args) with gaps between all elements; the gaps hold NaN (12
                 in integers): the first sample that allows it
      channels_last  op(*args) with 4-D tensors laid out so, likewise
      inplace    y = x.clone(); y.op_(*args); return y
      mutate     x.op_(*args) on the argument itself; no gradients
      processed  OpInfo's output_process_fn_grad(op(*args)): for operators whose
                 output is unique only up to sign or phase (svd, eigh, ...), the
                 form that has well defined values and gradients

In C++:
  auto file = torch::jit::load("ops/add.pt");
  for (const auto& item : file.named_children()) {
    auto& c = item.value;                                   // item.name: c0000
    auto x = c.attr("inputs").toTensorVector();
    auto want = c.attr("outputs").toTensorVector();
    torch::manual_seed(c.attr("seed").toInt());
    auto got = c.attr("fn").toModule().forward({x.begin(), x.end()});
  }
A run writes to the inputs that `mutated` names: load the file again for a second
run.  (A clone is not enough everywhere: as_strided reads outside of its tensor.)
A fair bound where there is a reference: the result is at most rtol and atol
farther from ref_outputs than eager's own outputs are.

What cannot be exported is listed with its reason in index.json ("skipped").
Each operator runs in a forked child, so one that crashes or hangs costs only
itself, and the files do not depend on which other operators were exported.  A
second run exports only what is not there yet, or what another version made.
"""
import argparse
import collections
import fnmatch
import json
import os
import sys
import time
import warnings

import torch

from archives import collect, earlier, in_child, keep, maker
from opinfo_case import SEED
from opinfo_samples import export_op

FORMAT = 1
MADE_BY = ("export_opinfo.py", "opinfo_*.py", "archives.py", "tensors.py", "requirements.txt")


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("outdir", metavar="OUTDIR")
    p.add_argument("--dtypes", default="float32,bfloat16,float16,int64,bool",
                   help="torch dtype names (default %(default)s)")
    p.add_argument("--max-samples", type=int, metavar="N", default=4,
                   help="samples of an operator for the first of --dtypes (default %(default)s)")
    p.add_argument("--max-samples-other", type=int, metavar="N", default=2,
                   help="the same for each further dtype, at most --max-samples (default %(default)s)")
    p.add_argument("--scan", type=int, default=64,
                   help="distinct samples to choose from (default %(default)s)")
    p.add_argument("--max-bytes", type=int, default=6144,
                   help="prefer samples with at most this many bytes of inputs (default %(default)s)")
    p.add_argument("--shard", metavar="K/N", default="1/1", help="export every N-th operator, K from 1")
    p.add_argument("--only", nargs="+", metavar="GLOB", help="operators by full name, e.g. 'nn.functional.*'")
    p.add_argument("--list", action="store_true", help="print the operators' names and stop")
    p.add_argument("--jobs", type=int, default=1, help="operators at a time (default %(default)s)")
    p.add_argument("--timeout", type=int, default=180, help="seconds for one operator (default %(default)s)")
    p.add_argument("--keep-debug", action="store_true", help="keep source positions in the archives")
    p.add_argument("--again", action="store_true", help="export anew what an earlier run has left in OUTDIR")
    args = p.parse_args()
    args.dtypes = args.dtypes.split(",")
    args.shard = tuple(int(x) for x in args.shard.split("/"))
    if not 1 <= args.shard[0] <= args.shard[1]:
        p.error("--shard K/N needs 1 <= K <= N")
    return args


def database():
    """All operators, by name."""
    os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")
    from torch.testing._internal import common_methods_invocations as db
    # OpInfo calls random operators through a wrapper that seeds inside of the call.
    # A trace cannot record that, so the caller seeds instead (see `seed`).
    db.wrapper_set_seed = lambda op, *a, **k: op(*a, **k)
    return sorted(db.op_db, key=lambda o: o.full_name)


def archive_of(args, op):
    return os.path.join(args.outdir, "ops", op.full_name + ".pt")


def part_of(args, op):
    return os.path.join(args.outdir, "parts", op.full_name + ".json")


def usable(args, op, key):
    """[entry, skips] of an earlier run, if its archive is there and holds the wanted dtypes, in the same places."""
    had = None if args.again else earlier(part_of(args, op), key)
    if had is None or had["dtypes"][:len(args.dtypes)] != args.dtypes:
        return None
    if had["entry"]["file"] and not os.path.exists(archive_of(args, op)):
        return None
    return had


def finish(args, op, key, status):
    """Takes what a child reported; the note for the log, and whether the operator is lost."""
    had, why = collect(part_of(args, op), status)
    if had is None:
        keep_skip = {"op": op.full_name, "dtype": "*", "kind": "*", "sample": None, "reason": why}
        if os.path.exists(archive_of(args, op)):
            os.remove(archive_of(args, op))
        return "LOST: " + why, keep_skip
    entry, skips = had
    keep(part_of(args, op), key, {"dtypes": args.dtypes, "entry": entry, "skips": skips})
    note = f"{len(entry['cases'])} cases, {entry['bytes']} bytes, {len(skips)} skipped"
    return note + ("" if entry.get("reload", "ok") == "ok" else ", RELOAD " + entry["reload"]), None


def export_all(ops, args, key):
    """Exports what is not there yet, --jobs at a time; the skips of operators that were lost."""
    dtypes = [getattr(torch, d) for d in args.dtypes]
    counts = {d: args.max_samples if i == 0 else min(args.max_samples, args.max_samples_other)
              for i, d in enumerate(dtypes)}
    queue = [op for op in ops if usable(args, op, key) is None]
    total, running, lost = len(queue), {}, []
    if total < len(ops):
        print(f"{len(ops) - total} of {len(ops)} operators as before", file=sys.stderr)
    while queue or running:
        while queue and len(running) < args.jobs:
            op = queue.pop(0)
            pid = in_child(lambda: export_op(op, dtypes, counts, args, archive_of(args, op)), part_of(args, op),
                           args.timeout)
            running[pid] = (op, time.time())
        pid, status = os.wait()
        op, began = running.pop(pid)
        note, skip = finish(args, op, key, status)
        lost += [skip] if skip else []
        print(f"[{total - len(queue) - len(running)}/{total}] {op.full_name}: {note} ({time.time() - began:.1f} s)",
              file=sys.stderr)
    return lost


def totals_of(ops, entries, skipped):
    every = [c for e in entries for c in e["cases"]]
    count = lambda f: dict(sorted(collections.Counter(f(c) for c in every).items()))  # noqa: E731
    return {"ops": len(ops), "ops_exported": sum(bool(e["cases"]) for e in entries),
            "cases": len(every), "by_dtype": count(lambda c: c["dtype"]),
            "by_kind": count(lambda c: c["kind"]),
            "with_grads": sum(bool(c.get("grad_inputs")) for c in every),
            "with_ref": sum(bool(c.get("ref")) for c in every),
            "random": sum(bool(c.get("random")) for c in every),
            "noncontiguous": sum(c["kind"] in ("noncontig", "channels_last")
                                 or bool(c.get("noncontiguous_inputs")) for c in every),
            "exact": sum(c["exact"] for c in every),
            "reload_ok": sum(e.get("reload") == "ok" for e in entries),
            "aten_kinds": len({a for c in every for a in c["aten"]}),
            "bytes": sum(e["bytes"] for e in entries), "skipped": len(skipped)}


def write_index(ops, args, key, lost):
    args.again = False
    kept = [had for had in (usable(args, op, key) for op in ops) if had]
    entries = sorted((had["entry"] for had in kept), key=lambda e: e["name"])
    skipped = sorted(lost + [s for had in kept for s in had["skips"]],
                     key=lambda s: (s["op"], s["dtype"], s["kind"], s["sample"] or 0))
    totals = totals_of(ops, entries, skipped)
    index = {"format": FORMAT, "torch": torch.__version__, "seed": SEED,
             "arguments": {a: getattr(args, a) for a in ("dtypes", "max_samples", "max_samples_other",
                                                         "scan", "max_bytes", "shard", "only")},
             "totals": totals, "ops": entries, "skipped": skipped}
    k, n = args.shard
    with open(os.path.join(args.outdir, "index.json" if n == 1 else f"index-{k}-of-{n}.json"), "w") as f:
        dump_lines(index, f)
    return totals


def main():
    args = parse()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    ops = database()
    if args.only:
        ops = [o for o in ops if any(fnmatch.fnmatch(o.full_name, g) for g in args.only)]
    ops = ops[args.shard[0] - 1::args.shard[1]]
    if args.list:
        print("\n".join(o.full_name for o in ops))
        return 0
    started = time.time()
    for folder in ("ops", "parts"):
        os.makedirs(os.path.join(args.outdir, folder), exist_ok=True)
    key = (f"{maker(*MADE_BY)} samples={args.max_samples},{args.max_samples_other} scan={args.scan} "
           f"bytes={args.max_bytes} debug={args.keep_debug}")
    lost = export_all(ops, args, key)
    totals = write_index(ops, args, key, lost)
    print(json.dumps({**totals, "seconds": round(time.time() - started)}), file=sys.stderr)
    return 1 if lost or totals["reload_ok"] < totals["ops_exported"] else 0


def dump_lines(index, f):
    """JSON with one case and one skip a line: readable, greppable, diffable."""
    head = {k: v for k, v in index.items() if k not in ("ops", "skipped")}
    f.write("{" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()))
    f.write(',\n"ops": [\n')
    parts = []
    for e in index["ops"]:
        top = json.dumps({k: v for k, v in e.items() if k != "cases"})[:-1]
        parts.append(top + ', "cases": [' + "".join("\n  " + json.dumps(c) + ("," if c is not e["cases"][-1] else "")
                                                    for c in e["cases"]) + "]}")
    f.write(",\n".join(parts) + '\n],\n"skipped": [\n')
    f.write(",\n".join(json.dumps(s) for s in index["skipped"]) + "\n]}\n")


if __name__ == "__main__":
    sys.exit(main())
