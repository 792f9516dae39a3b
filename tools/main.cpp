// bin/graphopt: everything is in libgraphopt.so.
#include <graphopt/tool.h>

int main(int argc, char **argv) { return graphopt::toolMain(argc, argv); }
