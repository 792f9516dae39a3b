// The parts of Tree that are no template: its errors and their words.
#include <graphopt/tree.h>

#include <fmt/format.h>

namespace graphopt {
namespace {

struct Describe {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(const at::Tensor &) const { return "a tensor"; }
  std::string operator()(bool) const { return "a bool"; }
  std::string operator()(int64_t) const { return "an int"; }
  std::string operator()(double) const { return "a float"; }
  std::string operator()(const std::string &) const { return "a string"; }
  std::string operator()(const Tree::List &list) const {
    return fmt::format("a list of {}", list.items.size());
  }
  std::string operator()(const Tree::Tuple &tuple) const {
    return fmt::format("a tuple of {}", tuple.items.size());
  }
};

} // namespace

const std::vector<Tree> &Tree::items() const {
  if (const List *list = get<List>())
    return list->items;
  return expect<Tuple>("a list or tuple").items;
}

std::string Tree::describe() const { return std::visit(Describe(), value_); }

void Tree::wrongKind(const char *what) const {
  userError(fmt::format("a result of the compiled callable is {}, expected {}", describe(), what));
}

} // namespace graphopt
