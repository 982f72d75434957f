#include "import/read_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::data {
namespace {

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error)) files.push_back(entry->path().string());
  }
  if (error) throw DataError(fmt::format("{}: cannot be listed: {}", folder, error.message()));
  if (files.empty()) throw DataError(folder + ": this folder has no files");
  std::sort(files.begin(), files.end());
  return files;
}

constexpr std::uint64_t kSmallestPart = 1 << 20;  // bytes
constexpr std::size_t kTogether = 1 << 14;        // numbers that are set aside at a time

/// Bytes [begin, end) of a file, from a blank to a blank; without an end: all of a file, which may be gzipped.
struct Piece {
  std::string path;
  std::string version;  ///< as file_version
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> end = {};
  bool ends_file = true;
};

/// The first blank from `at` on, or the end of the file.
std::uint64_t next_blank(std::ifstream& file, std::uint64_t at, std::uint64_t size) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(at));
  for (char c = 0; at < size && file.get(c); ++at) {
    if (c == ' ' || (c >= '\t' && c <= '\r')) return at;
  }
  return size;
}

using Pieces = std::vector<Piece>;

/// Divides texts into at most so many parts of about the same size. Files that are gzipped are not cut.
std::vector<Pieces> divide(const std::vector<std::string>& files, std::size_t most) {
  std::uint64_t all = 0;
  std::error_code ignored;
  for (const std::string& path : files) all += std::max<std::uint64_t>(1, std::filesystem::file_size(path, ignored));
  const std::uint64_t share = std::max(kSmallestPart, all / most + 1);
  std::vector<Pieces> parts(1);
  std::uint64_t filled = 0;
  const auto add = [&](Piece piece, std::uint64_t bytes) {
    parts.back().push_back(std::move(piece));
    filled += bytes;
    if (filled < share || parts.size() == most) return;
    parts.emplace_back();
    filled = 0;
  };
  for (const std::string& path : files) {
    const std::string version = file_version(path);
    const auto size = plain_size(path);
    if (!size || filled + *size <= share) {
      add({.path = path, .version = version}, std::filesystem::file_size(path, ignored));
      continue;
    }
    std::ifstream file(path, std::ios::binary);
    for (std::uint64_t begin = 0, end = 0; begin < *size; begin = end) {
      end = parts.size() == most ? *size : next_blank(file, std::min(*size, begin + share - filled), *size);
      add({.path = path, .version = version, .begin = begin, .end = end, .ends_file = end == *size}, end - begin);
    }
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

void read_piece(const Piece& piece, const TextOptions& options, Lowercase* lowercase, TextPart& part) {
  WordReader reader(as_utf8(piece.end ? open_bytes(piece.path, piece.version, piece.begin, *piece.end)
                                      : open_bytes(piece.path, piece.version),
                            options.encoding));
  std::vector<std::int32_t> numbers;
  const auto add = [&](std::int32_t number) {
    numbers.push_back(number);
    if (numbers.size() < kTogether) return;
    part.numbers.append(std::span<const std::int32_t>(numbers));
    numbers.clear();
  };
  for (auto token = reader.next(); token != WordReader::Token::end; token = reader.next()) {
    if (token == WordReader::Token::line_end) {
      add(kLineEnd);
      continue;
    }
    const std::string_view word = options.strip_punctuation ? without_punctuation(reader.word()) : reader.word();
    if (word.empty()) continue;
    const std::uint32_t number = part.words.number_of(lowercase ? (*lowercase)(word) : word);
    if (number == part.counts.size()) part.counts.push_back(0);
    ++part.counts[number];
    ++part.length;
    add(static_cast<std::int32_t>(number));
  }
  if (piece.ends_file) add(kLineEnd);
  part.numbers.append(std::span<const std::int32_t>(numbers));
}

/// Numbers the words of all parts, as they come first.
void merge(ReadText& text) {
  for (const auto& part : text.parts) {
    for (std::uint32_t number = 0; number < part->words.size(); ++number) {
      const std::uint32_t place = text.words.number_of(part->words[number]);
      if (place == text.counts.size()) text.counts.push_back(0);
      text.counts[place] += part->counts[number];
      part->places.push_back(place);
    }
    text.length += part->length;
    part->words = {};
    part->counts = {};
  }
}

void read_part(const Pieces& pieces, const TextOptions& options, TextPart& part) {
  std::optional<Lowercase> own;
  if (options.lowercase) own.emplace();
  for (const Piece& piece : pieces) read_piece(piece, options, own ? &*own : nullptr, part);
}

/// Reads each part on a thread of its own. \return false where one has a mistake
bool read_parts(const std::vector<Pieces>& parts, const TextOptions& options, ReadText& text) {
  std::atomic<bool> failed{false};
  const auto read = [&](std::size_t i) {
    try {
      read_part(parts[i], options, *text.parts[i]);
    } catch (...) {
      failed = true;
    }
  };
  Threads others("reading text", static_cast<int>(parts.size()) - 1);
  for (std::size_t i = 1; i < parts.size(); ++i) others.start([&read, i] { read(i); });
  read(0);
  others.join();
  return !failed;
}

constexpr std::size_t kWordBufferBytes = 256 << 10;
constexpr std::size_t kLongestWord = 64 << 10;

/// `odd`: zero and parts of characters of several bytes, which need a closer look.
enum Kind : unsigned char { plain, odd, blank, newline };

constexpr std::array<Kind, 256> kinds() {
  std::array<Kind, 256> kinds{};
  kinds[0] = odd;
  for (std::size_t c = 0x80; c < kinds.size(); ++c) kinds[c] = odd;
  for (const unsigned char c : {' ', '\t', '\f', '\v', '\x1C', '\x1D', '\x1E', '\x1F'}) kinds[c] = blank;
  kinds['\n'] = newline;
  kinds['\r'] = newline;
  return kinds;
}
constexpr std::array<Kind, 256> kKinds = kinds();

Kind kind_of(char c) { return kKinds[static_cast<unsigned char>(c)]; }

constexpr std::size_t kLongestBlank = 3;  // bytes

/// Bytes of the blank of several bytes that a text begins with (White_Space in Unicode 15's PropList.txt), or 0.
std::size_t wide_blank(std::string_view text) {
  if (text.starts_with("\xC2\x85") || text.starts_with("\xC2\xA0")) return 2;
  if (text.size() < kLongestBlank) return 0;
  const std::string_view two = text.substr(0, 2);
  const auto third = static_cast<unsigned char>(text[2]);
  const bool blank =
      (two == "\xE2\x80" && ((third >= 0x80 && third <= 0x8A) || third == 0xA8 || third == 0xA9 || third == 0xAF)) ||
      (two == "\xE2\x81" && third == 0x9F) || (two == "\xE3\x80" && third == 0x80) ||
      (two == "\xE1\x9A" && third == 0x80);
  return blank ? kLongestBlank : 0;
}

}  // namespace

void sort_words(const StringTable& words, const std::vector<std::int64_t>& counts, std::vector<std::uint32_t>& chosen) {
  std::sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : words[a] < words[b];
  });
}

std::vector<std::uint32_t> choose_words(const StringTable& words, const std::vector<std::int64_t>& counts,
                                        const TextOptions& options) {
  std::vector<std::uint32_t> chosen;
  for (std::uint32_t word = 0; word < words.size(); ++word) {
    if (counts[word] >= options.minimum_count) chosen.push_back(word);
  }
  sort_words(words, counts, chosen);
  if (options.maximum_words > 0 && chosen.size() > static_cast<std::size_t>(options.maximum_words))
    chosen.resize(static_cast<std::size_t>(options.maximum_words));
  return chosen;
}

std::vector<std::string> list_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const bool folder = std::filesystem::is_directory(path, error);
    const std::vector<std::string> found = folder ? files_below(path) : std::vector<std::string>{path};
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

ReadText read_text(const std::vector<std::string>& files, const TextOptions& options, const std::string& beside,
                   int threads) {
  const auto parts = divide(files, static_cast<std::size_t>(threads));
  ReadText text;
  for (std::size_t i = 0; i < parts.size(); ++i) text.parts.push_back(std::make_unique<TextPart>(beside));
  if (parts.size() == 1 || !read_parts(parts, options, text)) {
    // Whole files, one after the other: where there is a mistake, this names the first one's line.
    text.parts.clear();
    text.parts.push_back(std::make_unique<TextPart>(beside));
    Pieces whole;
    for (const std::string& path : files) whole.push_back({.path = path, .version = file_version(path)});
    read_part(whole, options, *text.parts[0]);
  }
  merge(text);
  return text;
}

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

std::size_t WordReader::wide_blank_at(std::size_t ahead) {
  while (end_ - at_ < ahead + kLongestBlank && fill()) {
  }
  return wide_blank({buffer_.data() + at_ + ahead, end_ - at_ - ahead});
}

/// Whether a line ends here, which is left behind then. \r\n is one end.
bool WordReader::take_line_end() {
  const char c = buffer_[at_];
  if (kind_of(c) != newline) return false;
  ++at_;
  const bool second = c == '\n' && after_return_;
  after_return_ = c == '\r';
  line_begin_ = before_ + at_;
  if (!second) ++line_;
  return !second;
}

WordReader::Token WordReader::next() {
  for (;;) {
    if (at_ == end_ && !fill()) return Token::end;
    const Kind kind = kind_of(buffer_[at_]);
    if (kind == newline) {
      if (take_line_end()) return Token::line_end;
      continue;
    }
    after_return_ = false;
    const std::size_t bytes = kind == blank ? 1 : kind == odd ? wide_blank_at(0) : 0;
    if (bytes == 0) break;
    at_ += bytes;
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
  std::size_t length = 0;
  for (;;) {
    for (; at_ + length < end_; ++length) {
      const Kind kind = kind_of(buffer_[at_ + length]);
      if (kind >= blank) break;
      if (kind != odd) continue;
      if (wide_blank_at(length) > 0) return at_ + length;
      is_plain = false;
    }
    if (length > kLongestWord)
      fail(at_, fmt::format("a word of more than {} KiB begins here; this is not a text file", kLongestWord >> 10));
    if (at_ + length < end_ || !fill()) return at_ + length;
  }
}

void WordReader::check_word() const {
  if (const std::size_t zero = word_.find('\0'); zero != std::string_view::npos)
    fail(at_ + zero, zero_byte_text(word_));
  const std::size_t invalid = find_invalid_utf8(word_);
  if (invalid == std::string_view::npos) return;
  fail(at_ + invalid, not_utf8(word_[invalid]));
}

void WordReader::fail(std::size_t at, const std::string& what) const {
  throw DataError(fmt::format("{}:{}:{}: {}", source_->name(), line_, before_ + at - line_begin_ + 1, what));
}

}  // namespace unisono::data
