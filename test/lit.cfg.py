# lit's configuration: finds the tool and LLVM's FileCheck, and says which files are tests.
#
#   scripts/lit [PRESET] [lit's own arguments]      the usual way in
#
# Parameters: preset=NAME (build/NAME/bin is tested; release by default). Environment: ROUNDTRIP=1 adds
# --verify-roundtrip to each `graphopt opt`, so that the whole suite tests the printer and the parser as well.
import os
import subprocess

import lit.formats


def llvmTools():
    for name in ("llvm-config-19", "llvm-config"):
        try:
            return subprocess.check_output([name, "--bindir"], text=True).strip()
        except (OSError, subprocess.CalledProcessError):
            continue
    return "/usr/lib/llvm-19/bin"


root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
preset = lit_config.params.get("preset", "release")
build = os.path.join(root, "build", preset)
cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
corpus = os.path.join(cache, "graphopt", "corpus")

config.name = "graphopt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".gir", ".test"]
config.excludes = ["Inputs", "unit", "corpus", "fuzz", "consumer"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = os.path.join(build, "test")

if not os.path.exists(os.path.join(build, "bin", "graphopt")):
    lit_config.fatal(f"no tool in {build}: run scripts/build {preset}")
if not os.path.exists(os.path.join(llvmTools(), "FileCheck")):
    lit_config.fatal("no FileCheck: run scripts/setup test")

config.environment["PATH"] = os.pathsep.join([os.path.join(build, "bin"), llvmTools(), os.environ["PATH"]])
for name in ("HOME", "XDG_CACHE_HOME", "GRAPHOPT_TORCH", "GRAPHOPT_PYTHON", "ASAN_OPTIONS", "UBSAN_OPTIONS",
             "CUDA_VISIBLE_DEVICES"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["OMP_NUM_THREADS"] = "1"  # tests run side by side
config.environment["GRAPHOPT_CACHE_DIR"] = "off"  # a test finds out itself what operators are made of

if os.environ.get("ROUNDTRIP"):
    config.substitutions.append((r"\bgraphopt opt\b", "graphopt opt --verify-roundtrip"))
    config.available_features.add("roundtrip")
config.substitutions += [("%root", root), ("%build", build), ("%corpus", corpus)]

# What a test may ask for by REQUIRES: a GPU, a sanitizer build, the exported models.
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("cuda")
if preset == "debug":
    config.available_features.add("sanitizers")
if os.path.exists(os.path.join(corpus, "models", "index.json")):
    config.available_features.add("corpus")
