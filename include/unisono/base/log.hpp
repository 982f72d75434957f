#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace unisono {

/// Where a process says what it does: on the terminal, and in a file where one was opened. Safe to use from several
/// threads. Every line is flushed.
class Log {
 public:
  /// \param rank 0 alone prints what is not a warning; the others' warnings name their rank
  /// \param terminal whether to print at all
  explicit Log(int rank = 0, bool terminal = true);
  /// A log with a file of its own, e.g. of one run among several. Its lines also go to `parent`, which outlives it.
  /// \param rank as above, within the run
  Log(Log& parent, int rank);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  /// Adds lines with date, time and level to a file from now on, behind what it holds; on rank 0, elsewhere nothing.
  /// \throws OutputError where it cannot be opened
  void add_file(const std::string& path);

  /// One line on standard output, from rank 0. \throws OutputError where the file cannot be written
  void info(std::string_view line);
  /// The same for the file alone: what a progress bar shows on the terminal.
  void info_to_file(std::string_view line);
  /// One line on standard error, from any rank, behind "warning: ". \throws OutputError where the file cannot be
  /// written
  void warning(std::string_view line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unisono
