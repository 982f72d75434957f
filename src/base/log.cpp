#include "unisono/base/log.hpp"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono {
namespace {

template <typename Sink, typename... Arguments>
spdlog::logger make_logger(const std::string& pattern, Arguments&&... arguments) {
  spdlog::logger logger("", std::make_shared<Sink>(std::forward<Arguments>(arguments)...));
  logger.set_pattern(pattern);
  logger.flush_on(spdlog::level::info);
  return logger;
}

[[noreturn]] void fail_log(const std::string& path, std::string_view reason) {
  const int error = errno;
  throw OutputError(
      fmt::format("{}: the log cannot be written: {}; {}, or choose another folder", path, reason, advice_on(error)));
}

struct Terminal {
  spdlog::logger out = make_logger<spdlog::sinks::stdout_sink_mt>("%v");
  spdlog::logger err = make_logger<spdlog::sinks::stderr_sink_mt>("warning: %v");
};

}  // namespace

struct Log::State {
  int rank;
  std::optional<Terminal> terminal = {};
  State* parent = nullptr;
  std::optional<spdlog::logger> file = {};

  void to_file(spdlog::level::level_enum level, std::string_view line) {
    if (file) file->log(level, spdlog::string_view_t(line.data(), line.size()));
  }
  void info(std::string_view line) {
    if (parent != nullptr) parent->info(line);
    if (terminal) terminal->out.info(spdlog::string_view_t(line.data(), line.size()));
    to_file(spdlog::level::info, line);
  }
  void warning(std::string_view line) {
    if (parent != nullptr) parent->warning(line);
    if (terminal) terminal->err.warn(spdlog::string_view_t(line.data(), line.size()));
    to_file(spdlog::level::warn, line);
  }
};

Log::Log(int rank, bool terminal) : state_(std::make_unique<State>(State{.rank = rank})) {
  if (terminal) state_->terminal.emplace();
}
Log::Log(Log& parent, int rank) : state_(std::make_unique<State>(State{.rank = rank, .parent = parent.state_.get()})) {}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::add_file(const std::string& path) {
  if (state_->rank != 0) return;
  try {
    state_->file = make_logger<spdlog::sinks::basic_file_sink_mt>("%Y-%m-%d %H:%M:%S %l: %v", path);
  } catch (const spdlog::spdlog_ex& error) {
    fail_log(path, error.what());
  }
  state_->file->set_error_handler([path](const std::string& reason) { fail_log(path, reason); });
}

void Log::info_to_file(std::string_view line) { state_->to_file(spdlog::level::info, printable(line)); }

void Log::info(std::string_view line) {
  if (state_->rank == 0) state_->info(printable(line));
}

void Log::warning(std::string_view line) {
  const std::string text = printable_message(line);
  state_->warning(state_->rank == 0 ? text : fmt::format("rank {}: {}", state_->rank, text));
}

}  // namespace unisono
