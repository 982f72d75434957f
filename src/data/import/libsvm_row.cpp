#include "import/libsvm_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kShownBytes = 40;  // of a wrong word

bool is_separator(char c) { return c == ' ' || c == '\t'; }

bool fits_float(double value) { return std::abs(value) <= double{std::numeric_limits<float>::max()}; }

/// Reads a line from left to right.
class Scanner {
 public:
  Scanner(const LineReader& line, std::string_view text) : line_(line), text_(text) {}

  /// To the next word. False at the line's end, or at its comment.
  bool skip_blanks() {
    while (at_ < text_.size() && is_separator(text_[at_])) ++at_;
    return at_ < text_.size() && text_[at_] != '#';
  }
  std::size_t at() const { return at_; }
  std::string_view rest() const { return text_.substr(at_); }

  template <typename T>
  bool read(T& value) {
    if (rest().starts_with('+') && !rest().starts_with("+-")) ++at_;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) return false;
    at_ = static_cast<std::size_t>(end - text_.data());
    return true;
  }
  bool at_end_of_word() const { return at_ == text_.size() || is_separator(text_[at_]) || text_[at_] == '#'; }
  bool take(char c) {
    const bool found = at_ < text_.size() && text_[at_] == c;
    if (found) ++at_;
    return found;
  }

  std::string word_at(std::size_t at) const {
    const std::size_t end = std::min(text_.find_first_of(" \t", at), text_.size());
    return std::string(text_.substr(at, std::min(end - at, kShownBytes)));
  }
  [[noreturn]] void fail(std::size_t at, const std::string& what) const { line_.fail(at + 1, what); }

 private:
  const LineReader& line_;
  std::string_view text_;
  std::size_t at_ = 0;
};

double read_label(Scanner& scan) {
  const std::size_t begin = scan.at();
  double label = 0;
  const bool read = scan.read(label);
  if (read && scan.rest().starts_with(','))
    scan.fail(begin, fmt::format("'{}' has several labels; only one label per line is supported", scan.word_at(begin)));
  if (read && scan.rest().starts_with(':'))
    scan.fail(begin, fmt::format("begins with '{}', but a line must begin with a label; write 0 if there is none",
                                 scan.word_at(begin)));
  if (!read || !scan.at_end_of_word() || !fits_float(label))
    scan.fail(begin, fmt::format("the label '{}' is not a number in the range of float32", scan.word_at(begin)));
  return label + 0.0;  // −0 is 0
}

std::uint32_t read_index(Scanner& scan) {
  const std::size_t begin = scan.at();
  if (scan.rest().starts_with("qid:")) {
    scan.fail(begin,
              "'qid:' is for ranking, which no model supports; remove it, for example with \"sed 's/ qid:[0-9]*//'\"");
  }
  std::uint64_t index = 0;
  if (!scan.read(index) || !scan.take(':'))
    scan.fail(begin, fmt::format("'{}' is not of the form index:value", scan.word_at(begin)));
  if (index > std::numeric_limits<std::uint32_t>::max())
    scan.fail(begin, fmt::format("the index {} is beyond 2³² − 1, the largest one", index));
  return static_cast<std::uint32_t>(index);
}

float read_value(Scanner& scan, std::size_t begin) {
  double value = 0;
  const std::size_t at = scan.at();
  if (scan.read(value) && scan.at_end_of_word() && fits_float(value)) return static_cast<float>(value);
  scan.fail(at, fmt::format("the value of '{}' is not a number in the range of float32", scan.word_at(begin)));
}

}  // namespace

bool parse_libsvm(const LineReader& line, std::string_view text, LibsvmRow& row) {
  row.indices.clear();
  row.values.clear();
  Scanner scan(line, text);
  if (!scan.skip_blanks()) return false;
  row.label_at = scan.at() + 1;
  row.label = read_label(scan);
  while (scan.skip_blanks()) {
    const std::size_t begin = scan.at();
    const std::uint32_t index = read_index(scan);
    if (!row.indices.empty() && index <= row.indices.back()) {
      scan.fail(begin, fmt::format("the index {} follows {}; indices must ascend without repetition", index,
                                   row.indices.back()));
    }
    row.indices.push_back(index);
    row.values.push_back(read_value(scan, begin));
    row.last_at = begin + 1;
    if (row.indices.size() == 1) row.first_at = row.last_at;
  }
  return true;
}

}  // namespace unisono::data
