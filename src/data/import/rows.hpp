#pragma once

#include <fmt/format.h>

#include <clocale>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/data/preprocessing.hpp"

// How importers read text: the lines of a file, and the rows that a format finds in them.
namespace unisono::data {

inline constexpr std::size_t kMostNumberedClasses = 100;  // labels that are numbers and are taken for classes unasked

/// Labels are so many different numbers that they may be classes as well as numbers to predict.
/// \param where "t.csv: column 'y'" \param count "113", "more than 1000"
/// \throws ConfigError which names both choices
[[noreturn]] void ask_for_task(const std::string& where, const std::string& count);

/// A file as a sequence of bytes.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills a buffer as far as there are bytes; fewer than its size only at the end.
  /// \throws DataError where the file is truncated or damaged
  virtual std::size_t read(std::span<char> buffer) = 0;
  virtual const std::string& name() const = 0;
};

/// Opens a file from its beginning, as often as asked for.
using OpenBytes = std::function<std::unique_ptr<ByteSource>()>;

// What these open throws DataError where the file has changed until its end is read.

/// A file, unpacked where it is compressed with gzip or zstd. \throws DataError where it does not exist or cannot be
/// read
std::unique_ptr<ByteSource> open_bytes(const std::string& path);
/// Of a file that was read before. \param version as file_version; the file must still have it
std::unique_ptr<ByteSource> open_bytes(const std::string& path, const std::string& version);
/// Bytes [begin, end) of such a file as it is, also where it is compressed. \throws DataError where it cannot be read
std::unique_ptr<ByteSource> open_bytes(const std::string& path, const std::string& version, std::uint64_t begin,
                                       std::uint64_t end);
/// Of a regular file that is not compressed; nothing: it is something else.
std::optional<std::uint64_t> plain_size(const std::string& path);
/// The same text in UTF-8.
std::unique_ptr<ByteSource> as_utf8(std::unique_ptr<ByteSource> source, Encoding encoding);
/// Of memory that outlives it.
std::unique_ptr<ByteSource> bytes_of(std::string_view text, const std::string& name);

/// \throws DataError where so many bytes of memory are not free
void require_room(const std::string& name, std::int64_t bytes);

/// A whole file, unpacked. \throws DataError where it does not fit into memory
std::vector<std::uint8_t> read_bytes(const std::string& path);

/// The lines of a text, which end with \n, \r\n or \r. Lines that hold nothing but blanks are left out.
class LineReader {
 public:
  /// \param others further files, whose lines follow
  explicit LineReader(std::unique_ptr<ByteSource> source, std::vector<OpenBytes> others = {});

  /// From now on, a field in double quotes may hold the ends of lines: `next` gives all lines of it as one, with \n
  /// between them. \param delimiter of the fields; 0: lines are lines
  void join_quoted(char delimiter) { delimiter_ = delimiter; }

  /// False at the end.
  /// \throws DataError for a line that is too long to be of a table, or holds a zero byte
  bool next(std::string& line);
  /// Of the line that `next` gave last, its first one; from 1.
  std::int64_t number() const { return number_; }
  /// Of the file that has that line.
  const std::string& name() const { return source_->name(); }
  /// Whether that line is the first one of its file.
  bool begins_file() const { return begins_file_; }
  /// How many lines that hold blanks, and nothing else, were left out.
  std::int64_t lines_of_blanks() const { return lines_of_blanks_; }

  /// \throws DataError with the place of the line that `next` gave last: "FILE:LINE: WHAT", or "FILE:LINE:BYTE: WHAT",
  /// where the first byte is 1
  [[noreturn]] void fail(std::string_view what) const;
  [[noreturn]] void fail(std::size_t byte, std::string_view what) const;

 private:
  bool next_raw(std::string& line);
  bool open_next();
  void append_quoted(std::string& line);
  bool fill();

  std::unique_ptr<ByteSource> source_;
  std::vector<OpenBytes> others_;
  std::size_t opened_ = 0;                      ///< how many of the others were opened
  bool is_fresh_ = true, begins_file_ = false;  ///< whether the file has given no line; whether that was its first one
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;
  std::int64_t number_ = 0, lines_ = 0;  ///< of the line that was given; read
  std::int64_t lines_of_blanks_ = 0;
  char delimiter_ = 0;
};

/// Opens a text from its beginning, as often as asked for. \throws DataError where it has changed meanwhile
using OpenText = std::function<std::unique_ptr<LineReader>()>;
OpenText text_of(const std::string& path, Encoding encoding = Encoding::utf8);
/// Of several files, one after the other.
OpenText text_of(const std::vector<std::string>& paths, Encoding encoding);

/// The first hundred lines of a file, from which formats are guessed.
/// \param has_one what a text without lines lacks: "a table has at least one row" \throws DataError for such a text
std::vector<std::string> first_lines(LineReader& lines, std::string_view has_one);

/// What an importer knows of its rows: how they stand in a text. `read_rows` does the rest.
template <typename Row>
struct RowFormat {
  std::string_view none = "rows";  ///< what a text without rows has not
  /// Reads a line. \return false where it holds no row, but a comment \throws DataError naming the place of a mistake
  std::function<bool(const LineReader& line, const std::string& text, Row& row)> parse;
  /// Takes a line of names above the rows of each file; empty: there is none.
  std::function<void(const LineReader& line, const std::string& text)> names = {};
  char quoted = 0;  ///< the delimiter of fields that may be quoted, see LineReader::join_quoted
};

/// Reads the rest of a text, row after row, and calls visit(line, row) for each.
/// \return how many rows there are \throws DataError where there are none
template <typename Row, typename Visit>
std::int64_t read_rows(LineReader& lines, const RowFormat<Row>& format, const Visit& visit) {
  std::string text;
  lines.join_quoted(format.quoted);
  if (format.names && lines.next(text)) format.names(lines, text);
  std::int64_t rows = 0;
  for (Row row; lines.next(text);) {
    if (format.names && lines.begins_file()) {
      format.names(lines, text);
      continue;
    }
    if (!format.parse(lines, text, row)) continue;
    visit(lines, row);
    ++rows;
  }
  if (rows == 0) throw DataError(fmt::format("{}: has no {}", lines.name(), format.none));
  return rows;
}

/// U+FEFF in UTF-8, with which some programs begin a file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Where the first byte stands that is no part of a UTF-8 character (Unicode 15, table 3-7); npos: there is none.
std::size_t find_invalid_utf8(std::string_view text);

/// "its values, from 1700000001 to 1700000002, differ too little for float32, …; subtract a constant from them"; empty
/// where they do not. \param rounding by how much float32 moves one of them at most
std::string lost_in_float_text(double low, double high, double rounding);

/// A text without the blanks and tabs at its ends.
std::string_view without_blanks(std::string_view text);

/// What is wrong with such a byte, and what to do.
std::string not_utf8(char byte);

/// What a zero byte in a line or word says of the file, and what to do. \param text it, from the file's beginning on
/// where it is the first one
std::string zero_byte_text(std::string_view text);

/// A word without the punctuation marks at its ends: quotation marks, dashes, dots, brackets and their like of ASCII,
/// Latin-1 and Unicode (U+2010 to U+205E, U+3001 to U+301F, and the full-width ones), but no + # $ % @ = < > ^ ~. Marks
/// inside stay: "don't".
/// \pre UTF-8
std::string_view without_punctuation(std::string_view word);

/// Makes letters small, those of all alphabets, one character for one ("İ" and "ẞ" lose their dot and their length).
class Lowercase {
 public:
  /// \throws DataError where the system does not know Unicode's letters
  Lowercase();
  ~Lowercase();
  Lowercase(const Lowercase&) = delete;
  Lowercase& operator=(const Lowercase&) = delete;

  /// \pre valid UTF-8 \return valid until the next call
  std::string_view operator()(std::string_view text);

 private:
  locale_t locale_;
  std::string lowered_;
};

}  // namespace unisono::data
