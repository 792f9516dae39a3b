// The comparison of a call with a row: what runs at every operator of a shadowed call.
#pragma once
#include "capture/frame.h"
#include "capture/words.h"

namespace graphopt::capture {

/// Compares a call's words with a row's, binding live-ins on their first use.
class Matcher {
public:
  Matcher(Frame &frame, const Row &row) : frame_(frame), slots_(frame.slots()), words_(row.words) {}

  [[gnu::always_inline]] bool word(Word word) { return *words_++ == word; }
  [[gnu::always_inline]] bool integer(Word word) { return *words_++ == word; }
  [[gnu::always_inline]] bool real(double value) {
    const Word *word = words_++;
    return *word == std::bit_cast<Word>(value) || frame_.bindScalar(word, value);
  }
  [[gnu::always_inline]] bool tensor(c10::TensorImpl &tensor) {
    Word word = *words_++;
    if (word & kFirstUse)
      return frame_.bind(valueOf(word), tensor);
    return slots_[valueOf(word)].is(tensor);
  }

private:
  Frame &frame_;
  Frame::Slot *slots_;
  const Word *words_;
};

} // namespace graphopt::capture
