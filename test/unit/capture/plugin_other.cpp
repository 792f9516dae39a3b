// A plugin of a version that does not exist.
#include <graphopt/plugin.h>

extern "C" __attribute__((visibility("default"))) const graphopt::plugin::Descriptor *graphopt_plugin() {
  static const graphopt::plugin::Descriptor descriptor{999, "other", nullptr};
  return &descriptor;
}
