// Obeys.
#include "ir/graph.h"
