"""What both exporters need: short reasons, clean archives, walks over graphs, and work done once in a child process."""
import hashlib
import json
import os
import pathlib
import re
import signal
import sys
import traceback

import torch


class Skip(Exception):
    """This sample cannot become a case; the text says why."""


def reason(exc):
    """One short line for an exception, without file names of this machine."""
    if isinstance(exc, Skip):
        return str(exc)
    if "observable data dependence" in str(exc):
        return "an output does not depend on the inputs, which torch.jit.trace refuses"
    lines = [l.strip() for l in str(exc).strip().splitlines() if l.strip()] or [""]
    details = [l for l in lines[1:] if l.startswith("- ")]      # torch.export lists what it found
    text = re.sub(r"(/[\w.+-]+){2,}/?", "<path>", " ".join([lines[0]] + details[:1]))
    text = re.sub(r"0x[0-9a-f]+", "0x..", text)
    return f"{type(exc).__name__}: {text[:240]}"


def strip_debug(path):
    """Drop the source-position records: they hold absolute paths of the machine
    that traced, make files differ between machines and are half of the size."""
    reader = torch._C.PyTorchFileReader(path)
    names = sorted(reader.get_all_records())
    # The version selects the meaning of operators that changed over time (below
    # 4, aten::div of integers truncates), so it must be carried over.
    version = next(int(reader.get_record(n)) for n in names if n in ("version", ".data/version"))
    records = [(n, reader.get_record(n)) for n in names
               if not n.endswith(".debug_pkl") and not n.startswith(".data/")
               and n not in ("byteorder", "version", ".format_version", ".storage_alignment")]
    del reader
    tmp = path + ".tmp"
    writer = torch._C.PyTorchFileWriter(tmp)
    writer.set_min_version(version)
    for name, data in records:
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    del writer
    os.replace(tmp, path)


def all_nodes(block):
    for n in block.nodes():
        yield n
        for b in n.blocks():
            yield from all_nodes(b)


def in_child(work, result_path, limit):
    """Fork; the child runs work() and writes its result as JSON.  Returns pid."""
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(limit)
        result = work()
        with open(result_path, "w") as f:
            json.dump(result, f)
        code = 0
    except BaseException:  # noqa: BLE001 - a child must not return
        traceback.print_exc()
    finally:
        os._exit(code)


# --------------------------------------------------------------------------
# Work is done once: what a piece of it reported lies in PART, under a key that says what made it.

def maker(*patterns):
    """A digest of this tool's files (globs beside this one) and of torch's version: what results depend on."""
    digest = hashlib.sha256(torch.__version__.encode())
    here = pathlib.Path(__file__).parent
    for path in sorted({p for pattern in patterns for p in here.glob(pattern)}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def earlier(part, key):
    """What an earlier run kept in `part` under this key, or None."""
    try:
        with open(part) as f:
            kept = json.load(f)
    except (OSError, ValueError):
        return None
    return kept["result"] if kept.get("key") == key else None


def keep(part, key, result):
    with open(part + ".tmp", "w") as f:
        json.dump({"key": key, "result": result}, f)
    os.replace(part + ".tmp", part)


def collect(part, status):
    """(result, None) of a child that wrote its result to `part`, or (None, why it did not)."""
    if status == 0:
        with open(part) as f:
            return json.load(f), None
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if os.path.exists(part):
        os.remove(part)
    if number == signal.SIGALRM:
        return None, "over the time limit"
    return None, f"killed by signal {number}" if number else "the exporter raised"
