#!/bin/sh
# Starts graphopt with the LibTorch 2.11 of this machine: the folder that GRAPHOPT_TORCH names (a wheel's torch/ or an
# unpacked LibTorch), else that of the torch which GRAPHOPT_PYTHON or python3 has. The libraries are found through
# LD_LIBRARY_PATH, since where they lie is known only here.
here=$(dirname "$(readlink -f "$0")")
torch=${GRAPHOPT_TORCH:-}
if [ -z "$torch" ]; then
  torch=$("${GRAPHOPT_PYTHON:-python3}" -c 'import importlib.util as u
spec = u.find_spec("torch")
print(list(spec.submodule_search_locations)[0] if spec else "")' 2>/dev/null)
fi
if [ ! -e "$torch/lib/libtorch_cpu.so" ]; then
  echo "graphopt: error: no LibTorch found${torch:+ in $torch}: set GRAPHOPT_TORCH to the torch folder of the 2.11 wheel, or have python3 find it (pip install torch==2.11.0)" >&2
  exit 1
fi
if ! grep -q 'TORCH_VERSION_MINOR 11$' "$torch/include/torch/headeronly/version.h" 2>/dev/null; then
  echo "graphopt: error: LibTorch in $torch is not version 2.11" >&2
  exit 1
fi
LD_LIBRARY_PATH=$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/../libexec/graphopt/graphopt" "$@"
