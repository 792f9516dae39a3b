// Random generators that say when the program asks for their state or gives them one.
#pragma once
#include <ATen/core/Generator.h>

namespace graphopt::capture {

/// Who hears of it, on the thread that set it; others go on as they are.
class GeneratorListener {
public:
  /// The state is asked for: draws that are put off have to come first. Throws when they cannot.
  virtual void onStateAsked(c10::GeneratorImpl &generator) = 0;
  /// A state is given, which may be the very one that the draws put off will begin with.
  virtual void onStateGiven() = 0;

protected:
  ~GeneratorListener() = default;
};
void setGeneratorListener(GeneratorListener *listener);
GeneratorListener *generatorListener();

/// Makes a generator of any device answer, for good, since other threads may be inside.
void answerFor(const at::Generator &generator);

} // namespace graphopt::capture
