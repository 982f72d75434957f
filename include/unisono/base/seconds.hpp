#pragma once

#include <string_view>

namespace unisono {

/// Where the seconds of a rank went; they add up to the total. The strategy adds to the first six, the observer to
/// evaluation and checkpoint, and `other` is set to the rest where the total is known.
struct Seconds {
  double compute = 0;                ///< forward and backward passes, less the waiting for messages inside them
  double exposed_communication = 0;  ///< waiting for messages while all ranks are present
  double straggler_wait = 0;         ///< waiting for ranks that had not arrived yet
  double bubble = 0;                 ///< waiting for other stages of the pipeline
  double input = 0;                  ///< waiting for the batch source
  double optimizer = 0;
  double evaluation = 0, checkpoint = 0;
  double other = 0;

  double sum() const;
};

/// One of them, with its key in files.
struct SecondsPart {
  std::string_view name;
  double Seconds::*value;
};

/// All of them: whoever adds up, sends, writes or shows seconds goes through this list.
inline constexpr SecondsPart kSecondsParts[] = {{"compute", &Seconds::compute},
                                                {"exposed_communication", &Seconds::exposed_communication},
                                                {"straggler_wait", &Seconds::straggler_wait},
                                                {"bubble", &Seconds::bubble},
                                                {"input", &Seconds::input},
                                                {"optimizer", &Seconds::optimizer},
                                                {"evaluation", &Seconds::evaluation},
                                                {"checkpoint", &Seconds::checkpoint},
                                                {"other", &Seconds::other}};

inline double Seconds::sum() const {
  double sum = 0;
  for (const SecondsPart& part : kSecondsParts) sum += this->*part.value;
  return sum;
}

inline Seconds& operator+=(Seconds& sum, const Seconds& more) {
  for (const SecondsPart& part : kSecondsParts) sum.*part.value += more.*part.value;
  return sum;
}

inline Seconds operator-(Seconds after, const Seconds& before) {
  for (const SecondsPart& part : kSecondsParts) after.*part.value -= before.*part.value;
  return after;
}

inline Seconds operator*(double factor, Seconds seconds) {
  for (const SecondsPart& part : kSecondsParts) seconds.*part.value *= factor;
  return seconds;
}

}  // namespace unisono
