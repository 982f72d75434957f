#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unisono {

/// What the process returns to the shell.
enum class ExitCode : int {
  success = 0,
  other = 1,
  config = 2,
  data = 3,
  checkpoint = 4,
  communication = 5,  ///< communication and launch errors
  device = 6,
  interrupted = 75,  ///< a checkpoint was written and the run can be resumed
};

/// An error that comes from outside the program: input, files, network, devices. The message says what is wrong, where,
/// and what to do about it.
class Error : public std::runtime_error {
 public:
  /// \param kind printed before the message: "config error"
  Error(ExitCode code, std::string kind, const std::string& message)
      : std::runtime_error(message), code_(code), kind_(std::move(kind)) {}

  ExitCode code() const noexcept { return code_; }
  const std::string& kind() const noexcept { return kind_; }

 private:
  ExitCode code_;
  std::string kind_;
};

struct ConfigError : Error {
  explicit ConfigError(const std::string& message) : Error(ExitCode::config, "config error", message) {}
};
struct DataError : Error {
  explicit DataError(const std::string& message) : Error(ExitCode::data, "data error", message) {}
};
struct CheckpointError : Error {
  explicit CheckpointError(const std::string& message) : Error(ExitCode::checkpoint, "checkpoint error", message) {}
};
struct CommunicationError : Error {
  explicit CommunicationError(const std::string& message)
      : Error(ExitCode::communication, "communication error", message) {}
};
struct LaunchError : Error {
  explicit LaunchError(const std::string& message) : Error(ExitCode::communication, "launch error", message) {}
};
struct DeviceError : Error {
  explicit DeviceError(const std::string& message) : Error(ExitCode::device, "device error", message) {}
};
/// Output cannot be written, e.g. because the folder is missing or the disk is full.
struct OutputError : Error {
  explicit OutputError(const std::string& message) : Error(ExitCode::other, "output error", message) {}
};

/// Prints a message to standard error, as `printable_message` shows it. Never fails: where the line cannot be written,
/// it is lost, and the exit code alone says what happened.
void print_error(std::string_view line) noexcept;

/// Advice for the message about a file that cannot be written: that its folder no longer exists, if so; else
/// `otherwise`.
std::string advice_about(const std::string& path, const std::string& otherwise);

/// A number with its digits in groups: "1,234,567".
std::string grouped(std::int64_t number);

/// A number of things in words: "1 rank", "2 ranks", "1,234 classes", "3 entries".
/// \param noun a regular one, in the singular
std::string count_of(std::int64_t count, std::string_view noun);

/// Seconds with three digits: "12.3 µs", "4.56 ms", "7.89 s".
std::string duration_text(double seconds);

/// A name in words: "straggler wait" for "straggler_wait".
std::string words_of(std::string_view name);

/// A list of alternatives in words: "a, b or c".
std::string any_of(const std::vector<std::string_view>& names);

/// A list in words: "a, b and c".
std::string all_of(const std::vector<std::string_view>& names);

}  // namespace unisono
