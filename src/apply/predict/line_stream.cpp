#include "predict/line_stream.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "unisono/base/errors.hpp"

namespace unisono::apply {

/// \return whether there was anything
bool LineStream::read_more() {
  constexpr std::size_t kLongestLine = std::size_t{1} << 26;
  std::array<char, 1 << 16> bytes;
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw DataError(fmt::format("{}: cannot be read: {}", name_, std::strerror(errno)));
  at_end_ = count == 0;
  text_.append(bytes.data(), static_cast<std::size_t>(count));
  if (!has_line() && text_.size() > kLongestLine) {
    throw DataError(fmt::format("{}:{}: the line has more than {} MiB; end each example with a line break", name_,
                                taken_ + 1, kLongestLine >> 20));
  }
  return count > 0;
}

bool LineStream::is_readable() const {
  pollfd state{.fd = descriptor_, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

std::vector<std::string> LineStream::next(std::size_t most) {
  while (!has_line() && !at_end_) {
    searched_ = text_.size();
    read_more();
  }
  std::vector<std::string> lines;
  std::size_t first = 0;
  while (lines.size() < most) {
    const std::size_t end = text_.find('\n', std::max(first, searched_));
    if (end == std::string::npos) {
      searched_ = text_.size();
      if (!at_end_ && is_readable() && read_more()) continue;
      break;
    }
    lines.push_back(text_.substr(first, end - first));
    first = end + 1;
  }
  if (at_end_ && lines.size() < most && first < text_.size()) {  // a last line without a line break
    lines.push_back(text_.substr(first));
    first = text_.size();
  }
  text_.erase(0, first);
  searched_ = 0;
  taken_ += std::ssize(lines);
  return lines;
}

}  // namespace unisono::apply
