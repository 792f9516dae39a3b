# Where things are: sourced by the other scripts, so that the repository, the cache and Python are found in one way.
#
#   GRAPHOPT_PYTHON  a python that has the torch wheel; else .deps/venv, else the per-user cache's venv
#   GRAPHOPT_TORCH   the torch folder of a wheel or an unpacked LibTorch 2.11; then no wheel is installed for building

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/graphopt
venv=$cache/venv
[ -x "$root/.deps/venv/bin/python" ] && venv=$root/.deps/venv
python=${GRAPHOPT_PYTHON:-$venv/bin/python}
corpus=$cache/corpus

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "error: $*"; exit 1; }
