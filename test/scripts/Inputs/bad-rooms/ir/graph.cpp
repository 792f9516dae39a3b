// Includes a later room, all of torch, and a public header that is not there.
#include "ir/graph.h"
#include "passes/pass.h"
#include <ATen/ATen.h>
#include <c10/core/ScalarType.h>
#include <graphopt/absent.h>
