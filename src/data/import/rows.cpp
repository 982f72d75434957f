#include "import/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "import/utf8.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kBufferBytes = 256 << 10;
constexpr std::size_t kLongestLine = 64 << 20;
constexpr std::size_t kFirstLines = 100;

}  // namespace

LineReader::LineReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)), buffer_(kBufferBytes) {}

bool LineReader::fill() {
  at_ = 0;
  end_ = source_->read(buffer_);
  return end_ > 0;
}

bool LineReader::next_raw(std::string& line) {
  line.clear();
  if (at_ == end_ && !fill()) return false;
  for (;;) {
    const auto* from = buffer_.data() + at_;
    const auto* stop = buffer_.data() + end_;
    const auto* newline = std::find(from, stop, '\n');
    line.append(from, newline);
    if (line.size() > kLongestLine) {
      throw DataError(fmt::format("{}:{}: the line is longer than {} MiB; this is not a table", name(), number_ + 1,
                                  kLongestLine >> 20));
    }
    at_ = static_cast<std::size_t>(newline - buffer_.data());
    if (newline != stop) {
      ++at_;
      break;
    }
    if (!fill()) break;
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

bool LineReader::next(std::string& line) {
  while (next_raw(line)) {
    if (++number_ == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (const std::size_t at = line.find('\0'); at != std::string::npos) {
      fail(at + 1, "a zero byte; this is not a text file");
    }
    if (line.find_first_not_of(" \t") != std::string::npos) return true;
  }
  return false;
}

void LineReader::fail(std::string_view what) const { throw DataError(fmt::format("{}:{}: {}", name(), number_, what)); }

void LineReader::fail(std::size_t byte, std::string_view what) const {
  throw DataError(fmt::format("{}:{}:{}: {}", name(), number_, byte, what));
}

OpenText text_of(const std::string& path) {
  return [path] { return std::make_unique<LineReader>(open_bytes(path)); };
}

std::vector<std::string> first_lines(LineReader& lines, std::string_view has_one) {
  std::vector<std::string> first;
  for (std::string line; first.size() < kFirstLines && lines.next(line);) first.push_back(line);
  if (first.empty()) throw DataError(fmt::format("{}: is empty; {}", lines.name(), has_one));
  return first;
}

}  // namespace unisono::data
