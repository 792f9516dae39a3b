// A public header that drags in a room.
#include "ir/graph.h"
