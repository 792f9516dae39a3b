// The one exception type of graphopt, in two kinds.
//
//   User     the caller can mend it; the text says what is wrong and what to do
//   Internal graphopt is at fault; the text says how to report it
//
// Errors of LibTorch itself (a shape mismatch in the model, say) pass through unchanged as c10::Error.
#pragma once
#include <graphopt/export.h>
#include <stdexcept>
#include <string>

namespace graphopt {

class GRAPHOPT_API Error : public std::runtime_error {
public:
  enum class Kind { User, Internal };
  Error(Kind kind, const std::string &text);
  ~Error() override;
  Kind kind() const { return kind_; }

private:
  Kind kind_;
};

/// Throws an Error of kind User. The text starts in lower case, has no final period, and says what to do.
[[noreturn]] GRAPHOPT_API void userError(const std::string &text);

namespace detail {
[[noreturn]] GRAPHOPT_API void assertFailed(const char *condition, const char *file, int line,
                                            const std::string &text);
}

} // namespace graphopt

/// An invariant of graphopt's own: a failure is a bug of graphopt, thrown as Error::Kind::Internal.
#define GO_ASSERT(condition, text)                                                                           \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::graphopt::detail::assertFailed(#condition, __FILE__, __LINE__, text);                                \
  } while (false)
