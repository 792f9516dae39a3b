// Names against the rules, and a copy that should be a reference.
#include <string>
struct bad_name {
  int Value = 0;
};
unsigned length(std::string text) { return text.size() + bad_name{}.Value; }
