// The exception type: kinds, and the words that go with an internal failure.
#include <graphopt/error.h>

#include <fmt/format.h>

namespace graphopt {

Error::Error(Kind kind, const std::string &text) : std::runtime_error(text), kind_(kind) {}
Error::~Error() = default;

void userError(const std::string &text) { throw Error(Error::Kind::User, text); }

namespace detail {
void assertFailed(const char *condition, const char *file, int line, const std::string &text) {
  std::string path = file;
  std::string name = path.substr(path.find_last_of('/') + 1);
  throw Error(Error::Kind::Internal,
              fmt::format("internal error in graphopt, please report it with the program or .gir that shows "
                          "it: {} ({} at {}:{})",
                          text, condition, name, line));
}
} // namespace detail

} // namespace graphopt
