#include "unisono/records/progress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace unisono::records {
namespace {

constexpr double kBarSeconds = 0.2, kFirstLineSeconds = 1, kLineSeconds = 10, kRareLineSeconds = 30;
constexpr int kBarWidth = 24;

int width_of(const std::string& terminal) {
  const int descriptor = ::open(terminal.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return 80;
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  ::close(descriptor);
  return known ? size.ws_col : 80;
}

std::string figures(const Position& position) {
  const std::string loss = std::isnan(position.loss) ? "" : fmt::format("  loss {:.4g}", position.loss);
  return fmt::format("epoch {}/{}  step {}/{}{}  {}  {} left", position.epoch, position.epochs, position.step,
                     position.steps, loss, speed_text(position.examples_per_second, position.tokens_per_example),
                     clock_text(position.seconds_left));
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string rate_text(double examples_per_second) {
  return examples_per_second < 10 ? fmt::format("{:.2g}", examples_per_second)
                                  : grouped(std::llround(examples_per_second));
}

std::string speed_text(double examples_per_second, std::int64_t tokens_per_example) {
  std::string text = rate_text(examples_per_second) + " examples/s";
  const double tokens = examples_per_second * static_cast<double>(tokens_per_example);
  if (tokens_per_example > 0) text += fmt::format(", {} tokens/s", rate_text(tokens));
  return text;
}

std::string bar_text(const Position& position, int width) {
  const double done = position.steps > 0 ? static_cast<double>(position.step) / static_cast<double>(position.steps) : 0;
  const auto filled = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * kBarWidth);
  const std::string text = fmt::format("[{:<{}}] {}", std::string(filled, '='), kBarWidth, figures(position));
  return text.substr(0, static_cast<std::size_t>(std::max(width - 1, 1)));
}

std::string watching_terminal() {
  const bool launched = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  std::error_code error;
  const auto target =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", launched ? ::getppid() : ::getpid()), error);
  const std::string path = error ? "" : target.string();
  return path.starts_with("/dev/pts/") || path.starts_with("/dev/tty") ? path : "";
}

Progress::Progress(Kind kind, Log& log, const Clock& clock) : kind_(kind), log_(log), since_drawn_(clock) {
  if (kind_ == Kind::bar) width_ = width_of(watching_terminal());
}

Progress::~Progress() { clear(); }

bool Progress::is_due(bool reported) const {
  if (kind_ == Kind::none) return false;
  if (kind_ == Kind::bar) return since_drawn_.seconds() >= kBarSeconds;
  if (!has_shown_) return since_drawn_.seconds() >= kFirstLineSeconds;
  return since_drawn_.seconds() >= (reported ? kLineSeconds : kRareLineSeconds);
}

void Progress::show(const Position& position) {
  since_drawn_.restart();
  has_shown_ = true;
  if (kind_ == Kind::lines) {
    log_.info(figures(position));
    return;
  }
  // Return to the line's start, draw, and erase what is left of the line before.
  fmt::print(stdout, "\r{}\x1b[K", bar_text(position, width_));
  std::fflush(stdout);
  drawn_ = true;
}

void Progress::line(const std::string& text) {
  clear();
  log_.info(text);
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stdout, "\r\x1b[K");
  std::fflush(stdout);
  drawn_ = false;
}

}  // namespace unisono::records
