// bin/graphopt: everything is in libgraphopt.so but the models of the zoo, which are examples.
#include "zoo/zoo.h"

#include <graphopt/tool.h>

int main(int argc, char **argv) { return graphopt::toolMain(argc, argv, zoo::descriptors()); }
