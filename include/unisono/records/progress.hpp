#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"

namespace unisono::records {

/// A run's progress, for the bar.
struct Position {
  std::int64_t epoch = 0, epochs = 0;  ///< epoch of the last step, from 1; epochs in all
  std::int64_t step = 0, steps = 0;    ///< steps made; steps in all
  double loss = 0;                     ///< loss of the last report; NaN before the first
  double examples_per_second = 0;
  std::int64_t tokens_per_example = 0;  ///< of language models; 0 for others
  double seconds_left = 0;
};

/// Seconds as a clock shows them: "12:34" or "1:02:03".
std::string clock_text(double seconds);
/// A rate of examples as text: "12,345", or for small rates "0.042".
std::string rate_text(double examples_per_second);
/// A rate of examples with its unit: "12,345 examples/s". Language models also have the rate of tokens: "96 examples/s,
/// 6,144 tokens/s". \param tokens_per_example 0: no language model
std::string speed_text(double examples_per_second, std::int64_t tokens_per_example);
/// A progress bar: one line of at most `width` characters.
std::string bar_text(const Position& position, int width);

/// The terminal on which the user watches this run: that of standard output or, under mpirun (which gives each rank a
/// pseudo terminal), mpirun's own. Empty: none.
std::string watching_terminal();

/// Shows progress, on rank 0: as a bar on a terminal, which is redrawn; otherwise as lines. The first line comes within
/// two seconds of the first step, then one with each report that comes at least ten seconds after the last line, and at
/// least one every half minute.
class Progress {
 public:
  enum class Kind { bar, lines, none };
  Progress(Kind kind, Log& log, const Clock& clock = steady_clock());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether `show` would draw now. \param reported whether the position's figures are from a new report
  bool is_due(bool reported) const;
  void show(const Position& position);
  /// Writes a line to the log, above the bar.
  void line(const std::string& text);

 private:
  void clear();

  Kind kind_;
  Log& log_;
  int width_ = 80;
  Stopwatch since_drawn_;
  bool drawn_ = false;      ///< a bar is on the terminal
  bool has_shown_ = false;  ///< whether anything was shown so far
};

}  // namespace unisono::records
