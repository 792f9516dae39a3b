#!/usr/bin/env python3
"""Export public model architectures as TorchScript and torch.export archives.

graphopt takes its models from outside: the architectures here come unchanged
from torchvision, timm and transformers (and, in the section `own`, from torch.nn),
with random weights from a fixed seed, since no trained weights are needed to
compare an optimised model against eager.

For each model NAME this writes into OUTDIR
  NAME.pt      torch.jit.trace of the model in eval mode (check_trace=False)
  NAME.script.pt  torch.jit.script of it, with --format script: keeps the Python
               code's branches, loops and assertions; where that works
  NAME.pt2     torch.export archive, with a dynamic batch dimension where that works
  NAME.train.pt  the trace in train mode, with --save-train: dropout and batch norm
               live; seeded alike it gives what eager training gives
  NAME.io.pt   TorchScript module without forward() that holds, as buffers, the
               example inputs and what eager gave: input0, input1, ..., output0, ...
               and the same for another batch size: alt_input0, ..., alt_output0, ...
and one index.json that says for each model how inputs are made (shape, dtype,
range), parameter count, output checksums (float64 sum and sum of absolute
values), whether the trace holds for another batch size, whether a trace in train
mode agrees with eager training, and which ATen operators it has.

  auto io = torch::jit::load("NAME.io.pt");
  auto model = torch::jit::load("NAME.pt");
  auto y = model.forward({io.attr("input0"), io.attr("input1")});   // Tensor or tuple

Every output is flattened: a Tensor if there is one, else a tuple of tensors.
Parameters that the libraries initialise to one constant (biases, norm scales,
layer scales of 1e-6, running statistics) are drawn at random as well: otherwise
whole residual branches would not show in the output.

Each model is built and exported in a forked child process.
A second run exports only what is not there yet, or what was made by another version
of this tool; index.json describes all of the folder.
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
from model_export import export_model
from zoo.own_models import register_own
from zoo.registry import MODELS, SEED
from zoo.timm_models import register_timm
from zoo.torchvision_models import register_torchvision
from zoo.transformers_models import register_transformers

FORMAT = 1
MADE_BY = ("export_models.py", "model_export.py", "archives.py", "zoo/*.py", "requirements.txt")


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("outdir", metavar="OUTDIR", nargs="?")
    p.add_argument("--suite", choices=["small", "full", "quickstart"], default="small",
                   help="small: reduced sizes, many architectures; full: published sizes, for benchmarks; "
                        "quickstart: one network and one transformer")
    p.add_argument("--only", nargs="+", metavar="NAME", help="names or globs, from either suite")
    p.add_argument("--format", default="ts,pt2", help="of ts, pt2, script (default %(default)s)")
    p.add_argument("--list", action="store_true", help="print the names and stop")
    p.add_argument("--no-train-check", action="store_true", help="do not trace in train mode as well")
    p.add_argument("--save-train", action="store_true",
                   help="save train-mode traces too, as NAME.train.pt, where they are meaningful")
    p.add_argument("--keep-debug", action="store_true",
                   help="keep source positions, which hold paths of this machine")
    p.add_argument("--threads", type=int, default=1, help="threads of each model's process (default 1)")
    p.add_argument("--timeout", type=int, default=900, help="seconds for one model (default %(default)s)")
    p.add_argument("--again", action="store_true", help="export anew what an earlier run has left in OUTDIR")
    args = p.parse_args()
    args.format = args.format.split(",")
    if not set(args.format) <= {"ts", "pt2", "script"}:
        p.error("--format takes ts, pt2 and script")
    if not args.list and not args.outdir:
        p.error("OUTDIR is needed")
    return args


def choose(args):
    for register in (register_torchvision, register_timm, register_transformers, register_own):
        register()
    if args.only:
        return [m for m in MODELS.values() if any(fnmatch.fnmatch(m.name, g) for g in args.only)]
    return [m for m in MODELS.values() if m.suite == args.suite]


def part_of(args, spec):
    return os.path.join(args.outdir, "parts", spec.name + ".json")


def usable(args, spec, key):
    """The entry of an earlier run, if the files that it names are there."""
    entry = None if args.again else earlier(part_of(args, spec), key)
    if entry is None:
        return None
    files = [entry["io"]] + [entry[k]["file"] for k in ("ts", "script", "pt2", "train") if "file" in entry.get(k, {})]
    return entry if all(os.path.exists(os.path.join(args.outdir, f)) for f in files) else None


def export_once(spec, args, key):
    """(entry, note) of a model that an earlier run or a child exports; the entry is None if the model is lost."""
    had = usable(args, spec, key)
    if had and set(args.format) <= set(had) and (args.no_train_check or "train" in had):
        return had, "as before"
    formats = sorted(set(args.format) | ({"ts", "script", "pt2"} & set(had or {})))
    part = part_of(args, spec)
    _, status = os.waitpid(in_child(lambda: export_model(spec, args.outdir, formats, args), part, args.timeout), 0)
    entry, why = collect(part, status)
    if entry is None:
        return None, "LOST: " + why
    keep(part, key, entry)
    note = f"{entry['params'] / 1e6:.2f}M params"
    for k in formats:
        note += f", {k} {'ok' if entry[k]['ok'] else 'FAILED: ' + entry[k].get('why', 'differs')}"
    return entry, f"{note} ({entry['total_s']} s)"


def totals_of(entries):
    formats = ("ts", "script", "pt2")
    good = lambda k, field: sum(bool(e.get(k, {}).get(field)) for e in entries)  # noqa: E731
    ops = {k: collections.Counter() for k in formats}
    for e in entries:
        for k in formats:
            ops[k].update(e.get(k, {}).get("ops", {}))
            ops[k].update(e.get(k, {}).get("prim", {}))
    totals = {"models": len(entries), "ts_ok": good("ts", "ok"), "ts_any_batch": good("ts", "any_batch"),
              "script_ok": good("script", "ok"), "pt2_ok": good("pt2", "ok"),
              "pt2_dynamic_batch": good("pt2", "dynamic_batch"), "train_meaningful": good("train", "meaningful"),
              "kinds": {k: len(ops[k]) for k in formats},
              "bytes": sum(e["io_bytes"] + sum(e.get(k, {}).get("bytes", 0) for k in (*formats, "train"))
                           for e in entries)}
    return totals, {k: dict(ops[k].most_common()) for k in formats}


def write_index(args, key, failed):
    """index.json describes all of the folder, whichever run exported it."""
    entries = [e for e in (usable(argparse.Namespace(outdir=args.outdir, again=False), m, key)
                           for m in MODELS.values()) if e]
    versions = {"torch": torch.__version__}
    for source in sorted({e["source"] for e in entries} - {"own"}):
        versions[source] = __import__(source).__version__
    totals, histograms = totals_of(entries)
    index = {"format": FORMAT, "versions": versions, "seed": SEED, "totals": totals, "failed": failed,
             "histograms": histograms, "models": entries}
    with open(os.path.join(args.outdir, "index.json"), "w") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
    return totals


def main():
    args = parse()
    chosen = choose(args)
    if args.list:
        print("\n".join(m.name for m in chosen))
        return 0
    if not chosen:
        sys.exit("export_models: error: no such model; --list shows them")

    os.makedirs(os.path.join(args.outdir, "parts"), exist_ok=True)
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)
    key = f"{maker(*MADE_BY)} debug={args.keep_debug} train={args.save_train} threads={args.threads}"

    failed, started = [], time.time()
    for i, spec in enumerate(chosen):
        entry, note = export_once(spec, args, key)
        if entry is None:
            failed.append({"name": spec.name, "why": note})
        print(f"[{i + 1}/{len(chosen)}] {spec.name}: {note}", file=sys.stderr)
    totals = write_index(args, key, failed)
    print(json.dumps({**totals, "seconds": round(time.time() - started)}), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
