#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/clock.hpp"
#include "unisono/base/log.hpp"
#include "unisono/base/text.hpp"

namespace unisono::experiment {

/// Where a run stands, for the progress bar.
struct Position {
  std::int64_t epoch = 0, epochs = 0;  ///< of the step made last, from 1
  std::int64_t step = 0, steps = 0;    ///< made, and of the whole run
  double loss = 0;                     ///< of the last report; NaN before the first
  double examples_per_second = 0;
  double seconds_left = 0;
};

/// "12:34" or "1:02:03"
std::string clock_text(double seconds);
/// "12,345", or of small ones "0.042"
std::string rate_text(double examples_per_second);
/// One line of at most `width` characters.
std::string bar_text(const Position& position, int width);

/// The terminal that this run is watched on: that of standard output, or of mpirun's, which gives each rank a pseudo
/// terminal of its own. Empty: none.
std::string watching_terminal();

/// A bar that is drawn over and over on a terminal. Elsewhere lines: the first one within two seconds of the first
/// step, then one for each report that comes ten seconds or more after the last line, and one every half a minute where
/// reports are rarer. For rank 0.
class Progress {
 public:
  enum class Kind { bar, lines, none };
  Progress(Kind kind, Log& log, const Clock& clock = steady_clock());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether `show` would draw now. \param reported whether its figures are new ones, of a report
  bool is_due(bool reported) const;
  void show(const Position& position);
  /// A line of the log, above the bar.
  void line(const std::string& text);

 private:
  void clear();

  Kind kind_;
  Log& log_;
  int width_ = 80;
  Stopwatch since_drawn_;
  bool drawn_ = false;      ///< a bar stands on the terminal
  bool has_shown_ = false;  ///< anything so far
};

}  // namespace unisono::experiment
