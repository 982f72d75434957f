#include "import/word_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "import/utf8.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kWordBufferBytes = 256 << 10;
constexpr std::size_t kLongestWord = 64 << 10;

/// `odd`: zero and parts of characters of several bytes, which need a closer look.
enum Kind : unsigned char { plain, odd, blank, newline };

constexpr std::array<Kind, 256> kinds() {
  std::array<Kind, 256> kinds{};
  kinds[0] = odd;
  for (std::size_t c = 0x80; c < kinds.size(); ++c) kinds[c] = odd;
  for (const unsigned char c : {' ', '\t', '\r', '\f', '\v'}) kinds[c] = blank;
  kinds['\n'] = newline;
  return kinds;
}
constexpr std::array<Kind, 256> kKinds = kinds();

Kind kind_of(char c) { return kKinds[static_cast<unsigned char>(c)]; }

}  // namespace

WordReader::WordReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)), buffer_(kWordBufferBytes) {
  if (fill() && std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

/// Keeps what was not read yet in front of what comes. False where nothing comes.
bool WordReader::fill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  before_ += at_;
  end_ -= at_;
  at_ = 0;
  const std::size_t count = source_->read(std::span(buffer_).subspan(end_));
  end_ += count;
  return count > 0;
}

WordReader::Token WordReader::next() {
  for (;;) {
    while (at_ < end_ && kind_of(buffer_[at_]) == blank) ++at_;
    if (at_ < end_) break;
    if (!fill()) return Token::end;
  }
  if (buffer_[at_] == '\n') {
    ++at_;
    ++line_;
    line_begin_ = before_ + at_;
    return Token::line_end;
  }
  bool is_plain = true;
  const std::size_t end = find_end(is_plain);
  word_ = {buffer_.data() + at_, end - at_};
  if (!is_plain) check_word();
  at_ = end;
  return Token::word;
}

/// Behind the word that begins at `at_`, all of which is in the buffer then. \param is_plain false where it has odd
/// bytes
std::size_t WordReader::find_end(bool& is_plain) {
  std::size_t end = at_;
  for (;;) {
    for (; end < end_; ++end) {
      const Kind kind = kind_of(buffer_[end]);
      if (kind >= blank) break;
      if (kind == odd) is_plain = false;
    }
    if (end - at_ > kLongestWord)
      fail(at_, fmt::format("a word of more than {} KiB begins here; this is not a text file", kLongestWord >> 10));
    if (end < end_) return end;
    end -= at_;
    if (!fill()) return end;
  }
}

void WordReader::check_word() const {
  if (const std::size_t zero = word_.find('\0'); zero != std::string_view::npos)
    fail(at_ + zero, "a zero byte; this is not a text file");
  const std::size_t invalid = find_invalid_utf8(word_);
  if (invalid == std::string_view::npos) return;
  fail(at_ + invalid, fmt::format("the byte 0x{:02X} is not part of a UTF-8 character; convert the file, for example "
                                  "with 'iconv -f latin1 -t utf-8'",
                                  static_cast<unsigned char>(word_[invalid])));
}

void WordReader::fail(std::size_t at, const std::string& what) const {
  throw DataError(fmt::format("{}:{}:{}: {}", source_->name(), line_, before_ + at - line_begin_ + 1, what));
}

}  // namespace unisono::data
