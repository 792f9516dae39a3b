// Marks what libgraphopt.so exports; everything else is hidden.
#pragma once
#if defined(GRAPHOPT_STATIC)
#define GRAPHOPT_API
#else
#define GRAPHOPT_API __attribute__((visibility("default")))
#endif
