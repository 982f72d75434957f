#include "import/rows.hpp"

#include <wctype.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "import/unpack.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/base/resources.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kBufferBytes = 256 << 10;
constexpr std::size_t kLongestLine = 64 << 20;
constexpr std::size_t kLongestQuote = 1 << 20;  // of lines that a quote joins
constexpr std::size_t kFirstLines = 100;

void require_version(const std::string& path, const std::string& version) {
  if (file_version(path) == version) return;
  throw DataError(path + ": was changed while it was being read; try again when nothing writes to it any more");
}

/// A whole file as it is.
class FileBytes final : public ByteSource {
 public:
  FileBytes(const std::string& path, const std::string& version)
      : path_(path), version_(version), file_(std::fopen(path.c_str(), "rb"), std::fclose) {
    if (file_ == nullptr) throw DataError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
    require_version(path, version);
  }

  std::size_t read(std::span<char> buffer) override {
    const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file_.get());
    if (count < buffer.size() && std::ferror(file_.get()) != 0) {
      throw DataError(fmt::format("{}: cannot be read to its end: {}", path_, std::strerror(errno)));
    }
    if (count < buffer.size()) require_version(path_, version_);
    return count;
  }
  const std::string& name() const override { return path_; }

 private:
  std::string path_, version_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

class PieceBytes final : public ByteSource {
 public:
  PieceBytes(const std::string& path, const std::string& version, std::uint64_t begin, std::uint64_t end)
      : path_(path), version_(version), at_(begin), end_(end), file_(path, std::ios::binary) {
    file_.seekg(static_cast<std::streamoff>(begin));
    if (!file_) throw DataError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }

  std::size_t read(std::span<char> buffer) override {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end_ - at_));
    file_.read(buffer.data(), static_cast<std::streamsize>(count));
    if (count < buffer.size()) require_version(path_, version_);
    if (file_.gcount() != static_cast<std::streamsize>(count)) throw DataError(path_ + ": cannot be read to its end");
    at_ += count;
    return count;
  }
  const std::string& name() const override { return path_; }

 private:
  std::string path_;
  std::string version_;
  std::uint64_t at_, end_;
  std::ifstream file_;
};

class MemoryBytes final : public ByteSource {
 public:
  MemoryBytes(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  std::size_t read(std::span<char> buffer) override {
    const std::size_t count = std::min(buffer.size(), rest_.size());
    std::copy_n(rest_.begin(), count, buffer.begin());
    rest_.remove_prefix(count);
    return count;
  }
  const std::string& name() const override { return name_; }

 private:
  std::string_view rest_;
  std::string name_;
};

/// Bytes of the character that begins with this one, and bounds of its second byte; length 0: none begins like that.
struct Lead {
  std::size_t length;
  unsigned char low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0};        // shorter forms exist below
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // at most U+10FFFF
  return {0};
}

bool is_character(std::string_view bytes, const Lead& lead) {
  if (lead.length == 0 || bytes.size() < lead.length) return false;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < (i == 1 ? lead.low : 0x80) || byte > (i == 1 ? lead.high : 0xBF)) return false;
  }
  return true;
}

/// \pre the first `length` bytes are a character
std::uint32_t decode(std::string_view bytes, std::size_t length) {
  constexpr unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = static_cast<unsigned char>(bytes[0]) & masks[length];
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3FU);
  return code;
}

void encode(std::uint32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80U | (code >> shift & 0x3FU)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0U | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Latin-1, with the characters of Windows-1252 in place of its rarely used control characters.
/// https://encoding.spec.whatwg.org/index-windows-1252.txt
class Latin1Bytes final : public ByteSource {
 public:
  explicit Latin1Bytes(std::unique_ptr<ByteSource> source) : source_(std::move(source)), bytes_(kBufferBytes) {}

  std::size_t read(std::span<char> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size() && (at_ < text_.size() || fill())) {
      const std::size_t count = std::min(buffer.size() - filled, text_.size() - at_);
      std::copy_n(text_.data() + at_, count, buffer.data() + filled);
      at_ += count;
      filled += count;
    }
    return filled;
  }
  const std::string& name() const override { return source_->name(); }

 private:
  bool fill() {
    constexpr std::uint16_t windows[32] = {0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                           0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                                           0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                           0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};
    const std::size_t count = source_->read(bytes_);
    text_.clear();
    at_ = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto byte = static_cast<unsigned char>(bytes_[i]);
      encode(byte >= 0x80 && byte < 0xA0 ? windows[byte - 0x80] : byte, text_);
    }
    return count > 0;
  }

  std::unique_ptr<ByteSource> source_;
  std::vector<char> bytes_;
  std::string text_;
  std::size_t at_ = 0;
};

/// Whether a line ends inside a quoted field. \param inside whether it begins there
bool ends_inside_quotes(std::string_view text, char delimiter, bool inside) {
  for (std::size_t at = 0;;) {
    if (!inside) {
      at = text.find_first_not_of(delimiter == '\t' ? " " : " \t", at);
      if (at == std::string_view::npos) return false;
      inside = text[at] == '"';
      if (inside) ++at;
    }
    for (; inside; ++at) {
      at = text.find('"', at);
      if (at == std::string_view::npos) return true;
      if (at + 1 < text.size() && text[at + 1] == '"') {
        ++at;
      } else {
        inside = false;
      }
    }
    at = delimiter == ' ' ? text.find_first_of(" \t", at) : text.find(delimiter, at);
    if (at++ == std::string_view::npos) return false;
  }
}

}  // namespace

void ask_for_task(const std::string& where, const std::string& count) {
  throw ConfigError(fmt::format(
      "{}: the labels are {} different numbers: add --task regression to predict them as numbers, or --task "
      "classes for a class of each",
      where, count));
}

LineReader::LineReader(std::unique_ptr<ByteSource> source, std::vector<OpenBytes> others)
    : source_(std::move(source)), others_(std::move(others)), buffer_(kBufferBytes) {}

bool LineReader::open_next() {
  if (opened_ == others_.size()) return false;
  source_ = others_[opened_++]();
  at_ = end_ = 0;
  lines_ = 0;
  is_fresh_ = true;
  return true;
}

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
    const auto* line_end = std::find_if(from, stop, [](char c) { return c == '\n' || c == '\r'; });
    line.append(from, line_end);
    if (line.size() > kLongestLine) {
      throw DataError(fmt::format("{}:{}: the line is longer than {} MiB; this is not a table", name(), lines_ + 1,
                                  kLongestLine >> 20));
    }
    at_ = static_cast<std::size_t>(line_end - buffer_.data());
    if (line_end != stop) break;
    if (!fill()) break;
  }
  if (at_ < end_ && buffer_[at_++] == '\r' && (at_ < end_ || fill()) && buffer_[at_] == '\n') ++at_;
  ++lines_;
  return true;
}

void LineReader::append_quoted(std::string& line) {
  std::string more;
  bool inside = ends_inside_quotes(line, delimiter_, false);
  while (inside && line.size() < kLongestQuote && next_raw(more)) {
    line += '\n';
    line += more;
    inside = ends_inside_quotes(more, delimiter_, true);
  }
}

bool LineReader::next(std::string& line) {
  for (;;) {
    if (!next_raw(line)) {
      if (is_fresh_ && !others_.empty()) throw DataError(name() + ": is empty; leave this file out");
      if (open_next()) continue;
      return false;
    }
    number_ = lines_;
    if (number_ == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (delimiter_ != 0 && line.find('"') != std::string::npos) append_quoted(line);
    if (const std::size_t at = line.find('\0'); at != std::string::npos) {
      fail(at + 1, zero_byte_text(line));
    }
    if (line.find_first_not_of(" \t") != std::string::npos) {
      begins_file_ = std::exchange(is_fresh_, false);
      return true;
    }
    if (!line.empty()) ++lines_of_blanks_;
  }
}

void LineReader::fail(std::string_view what) const { throw DataError(fmt::format("{}:{}: {}", name(), number_, what)); }

void LineReader::fail(std::size_t byte, std::string_view what) const {
  throw DataError(fmt::format("{}:{}:{}: {}", name(), number_, byte, what));
}

OpenText text_of(const std::string& path, Encoding encoding) {
  return [path, encoding, version = file_version(path)] {
    return std::make_unique<LineReader>(as_utf8(open_bytes(path, version), encoding));
  };
}

OpenText text_of(const std::vector<std::string>& paths, Encoding encoding) {
  std::vector<OpenBytes> files;
  for (const std::string& path : paths) {
    files.push_back(
        [path, encoding, version = file_version(path)] { return as_utf8(open_bytes(path, version), encoding); });
  }
  return [first = files.front(), others = std::vector(files.begin() + 1, files.end())] {
    return std::make_unique<LineReader>(first(), others);
  };
}

std::vector<std::string> first_lines(LineReader& lines, std::string_view has_one) {
  std::vector<std::string> first;
  for (std::string line; first.size() < kFirstLines && lines.next(line);) {
    if (lines.begins_file() && !first.empty()) break;  // of the next file
    first.push_back(line);
  }
  if (first.empty()) throw DataError(fmt::format("{}: is empty; {}", lines.name(), has_one));
  return first;
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) { return open_bytes(path, file_version(path)); }

std::unique_ptr<ByteSource> open_bytes(const std::string& path, const std::string& version) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw DataError(path + ": there is no such file; check the path");
  if (std::filesystem::is_directory(path, error)) throw DataError(path + ": this is a folder, not a file");
  if (!std::filesystem::is_regular_file(path, error)) {
    throw DataError(path + ": this is not a regular file; it must be one, because it is read more than once");
  }
  return unpacked(std::make_unique<FileBytes>(path, version));
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path, const std::string& version, std::uint64_t begin,
                                       std::uint64_t end) {
  return std::make_unique<PieceBytes>(path, version, begin, end);
}

std::optional<std::uint64_t> plain_size(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  char start[4] = {};
  file.read(start, sizeof start);
  if (is_packed({start, sizeof start})) return {};
  const auto size = std::filesystem::file_size(path, error);
  if (error) return {};
  return size;
}

std::unique_ptr<ByteSource> bytes_of(std::string_view text, const std::string& name) {
  return std::make_unique<MemoryBytes>(text, name);
}

void require_room(const std::string& name, std::int64_t bytes) {
  const auto available = available_memory_bytes();
  if (!available || bytes <= *available) return;
  throw DataError(
      fmt::format("{}: needs {} MiB of memory, but only {} MiB are free", name, bytes >> 20, *available >> 20));
}

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  const auto source = open_bytes(path);
  std::vector<std::uint8_t> bytes;
  std::vector<char> buffer(kBufferBytes);
  std::size_t doubled = std::size_t{64} << 20;
  for (std::size_t count = buffer.size(); count == buffer.size();) {
    count = source->read(buffer);
    if (bytes.size() + count > doubled) {  // the vector takes up to twice its size when it grows
      require_room(path, 2 * static_cast<std::int64_t>(doubled));
      doubled *= 2;
    }
    bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return bytes;
}

std::unique_ptr<ByteSource> as_utf8(std::unique_ptr<ByteSource> source, Encoding encoding) {
  if (encoding == Encoding::utf8) return source;
  return std::make_unique<Latin1Bytes>(std::move(source));
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string not_utf8(char byte) {
  return fmt::format(
      "the byte 0x{:02X} is not part of a UTF-8 character; if the file is in Latin-1, set --encoding latin1",
      static_cast<unsigned char>(byte));
}

std::string lost_in_float_text(double low, double high, double rounding) {
  constexpr double kWorst = 1.0 / 256;  // of the range
  if (high <= low || rounding <= kWorst * (high - low)) return "";
  return fmt::format(
      "its values, from {} to {}, differ too little for float32, which would round them by up to {:.2g}; subtract a "
      "constant from them",
      low, high, rounding);
}

std::string zero_byte_text(std::string_view text) {
  using std::string_view_literals::operator""sv;
  const char* encoding = nullptr;
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv)) {
    encoding = "32";
  } else if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    encoding = "16";
  }
  if (encoding == nullptr) return "a zero byte; this is not a text file";
  return fmt::format("a zero byte; this is UTF-{0}; convert the file, for example with 'iconv -f utf-{0} -t utf-8'",
                     encoding);
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    if (!is_character(text.substr(at), lead)) return at;
    at += lead.length;
  }
  return std::string_view::npos;
}

namespace {

bool is_punctuation(std::uint32_t character) {
  constexpr std::string_view ascii = "!\"&'()*,-./:;?[\\]_`{|}";
  if (character < 0x80) return ascii.find(static_cast<char>(character)) != std::string_view::npos;
  constexpr std::pair<std::uint32_t, std::uint32_t> ranges[] = {
      {0xA1, 0xA1},     {0xA7, 0xA7},     {0xAB, 0xAB},     {0xB6, 0xB7},     {0xBB, 0xBB},
      {0xBF, 0xBF},     {0x2010, 0x2027}, {0x2030, 0x205E}, {0x3001, 0x3003}, {0x3008, 0x3011},
      {0x3014, 0x301F}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65}};
  return std::ranges::any_of(ranges, [=](auto range) { return range.first <= character && character <= range.second; });
}

}  // namespace

std::string_view without_punctuation(std::string_view word) {
  std::size_t first = std::string_view::npos, last = 0;  // the bytes from the first to the last other character
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = lead_of(static_cast<unsigned char>(word[at])).length;
    if (!is_punctuation(decode(word.substr(at), length))) {
      first = std::min(first, at);
      last = at + length;
    }
    at += length;
  }
  return last == 0 ? "" : word.substr(first, last - first);
}

Lowercase::Lowercase() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
  if (locale_ == nullptr)
    throw DataError("--lowercase: this system has no locale C.UTF-8; convert the text to lower case beforehand");
}

Lowercase::~Lowercase() { freelocale(locale_); }

std::string_view Lowercase::operator()(std::string_view text) {
  lowered_.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = lead_of(static_cast<unsigned char>(text[at])).length;
    encode(static_cast<std::uint32_t>(towlower_l(decode(text.substr(at), length), locale_)), lowered_);
    at += length;
  }
  return lowered_;
}

}  // namespace unisono::data
