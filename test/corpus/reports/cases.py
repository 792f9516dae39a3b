"""The cases: small programs, each suggested by a public bug report of another compiler, in our own words and code.

A case is a function that returns a module or function and its input sets; the decorator says what else counts
(case_table.py). They lie in one file a theme; C++ cases are cpp/ID.cpp and are named here.
"""
import case_gradients  # noqa: F401 - registers its cases, as the others do
import case_memory  # noqa: F401
import case_numbers  # noqa: F401
from case_table import cpp

cpp("c077", "pytorch/pytorch#198095", "alias", "result is a view of an aliased argument with an offset",
    "the returned view was rebuilt from the wrong base and offset",
    "alias view output")
cpp("c079", "pytorch/pytorch#110803", "recompile", "alternating train() and eval()",
    "every switch failed the guards and compiled again; an earlier report saw a stale mode instead",
    "train eval dropout batchnorm")
cpp("c081", "pytorch/pytorch#111785", "state", "member re-pointed to another slice of a buffer",
    "every call wrote to the slice seen during capture",
    "host-state slice inplace")
cpp("c083", "pytorch/pytorch#190758", "rng", "dropout recomputed in the backward",
    "recomputation drew a new mask, so the gradient belonged to another sample",
    "dropout recompute checkpoint")
cpp("c086", "pytorch/pytorch#69031", "ddp", "replicas, accumulation and parameters unused in the last step",
    "gradients of parameters not used in the last accumulation step were never averaged",
    "ddp unused accumulate")
cpp("c089", "pytorch/xla#3291", "alias", "view of an argument is used after the call",
    "after the graph was executed a view and its base no longer shared memory",
    "view base lazy")
cpp("c090", "pytorch/pytorch#183608", "crash", "index out of range must be an error",
    "negative embedding indices were wrapped like Python indices instead of being rejected",
    "embedding error bounds")
cpp("c091", "pytorch/pytorch#181564", "amp", "same function under two autocast types",
    "the cache key had 'autocast on' but not its type, so bfloat16 code ran for float16",
    "autocast cache-key pull-request")
cpp("c092", "tinygrad/tinygrad#16618", "state", "parameter updated inside the function, not returned",
    "the assignment happened in the first call and was dropped on replay",
    "inplace replay sgd")
cpp("c095", "pytorch/pytorch#114338", "grad", "grad mode inside and outside of the function",
    "outputs of equal value but different requires_grad were merged into one",
    "no_grad enable_grad cse")
cpp("c097", "pytorch/pytorch#96136", "state", "recomputation must not repeat side effects",
    "batch norm statistics were updated a second time while recomputing",
    "recompute batchnorm side-effect")
