#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace unisono {

/// The log of a process, written to the terminal and, if one was added, to a file. Thread-safe. Every line is flushed.
/// Control characters are shown as `printable` does.
class Log {
 public:
  /// \param rank only rank 0 prints `info` lines; a warning of another rank begins with its rank
  /// \param terminal whether to print to the terminal
  explicit Log(int rank = 0, bool terminal = true);
  /// A log with a file of its own, e.g. for one of several runs. Its lines also go to `parent`, which must outlive it.
  /// \param rank within the run: only rank 0 prints `info` lines, and a warning of another rank begins with its rank
  Log(Log& parent, int rank);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  /// From now on, also appends each line to a file, with date, time and level. Does nothing on ranks other than 0.
  /// \throws OutputError where it cannot be opened
  void add_file(const std::string& path);

  /// One line on standard output, from rank 0. \throws OutputError where the file cannot be written
  void info(std::string_view line);
  /// One line in the file only, e.g. for what a progress bar shows on the terminal.
  void info_to_file(std::string_view line);
  /// One line on standard error, from any rank, with the prefix "warning: ". \throws OutputError where the file cannot
  /// be written
  void warning(std::string_view line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unisono
