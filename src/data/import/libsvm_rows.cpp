#include "import/libsvm_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

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

constexpr double kMostLabel = 1e15;  // of a class: written with all of its digits
constexpr std::size_t kShownLabels = 10;

/// In front of a row's indices and values.
struct SpillHead {
  double label;
  std::uint64_t count;
};

void note_label(const LineReader& line, const LibsvmRow& row, const LibsvmOptions& options, LibsvmFindings& found) {
  const double label = row.label;
  const bool whole = label == std::trunc(label) && std::abs(label) < kMostLabel;
  if (!whole && options.task == Task::classes)
    line.fail(row.label_at,
              fmt::format("the label {} is not a whole number, so it cannot be a class; use --task regression", label));
  found.whole_labels = found.whole_labels && whole;
  const bool is_first = found.label_rounding < 0;
  found.lowest_label = is_first ? label : std::min(found.lowest_label, label);
  found.highest_label = is_first ? label : std::max(found.highest_label, label);
  found.label_rounding = std::max(found.label_rounding, std::abs(label - double{static_cast<float>(label)}));
  if (found.too_many_labels || !found.whole_labels || options.task == Task::regression) return;
  found.labels.emplace(label, 0);
  found.too_many_labels = options.task == Task::automatic && found.labels.size() > kMostNumberedClasses;
}

void check_label(const LineReader& line, const LibsvmRow& row, const std::map<double, std::int32_t>& classes) {
  if (classes.empty() || classes.contains(row.label)) return;
  std::vector<double> shown;
  for (const auto& [known, number] : classes) {
    if (shown.size() < kShownLabels) shown.push_back(known);
  }
  line.fail(row.label_at, fmt::format("the label {} does not occur in the training file, whose classes are {}{}",
                                      row.label, fmt::join(shown, ", "), classes.size() > shown.size() ? ", …" : ""));
}

void note_indices(const LineReader& line, const LibsvmRow& row, const LibsvmOptions& options, LibsvmFindings& found) {
  if (row.indices.empty()) return;
  if (row.indices.front() == 0 && options.base == IndexBase::one)
    line.fail(row.first_at,
              "has the index 0, but the first column has the index 1 (--base 1, or what the model was trained on)");
  found.zero_index = found.zero_index || row.indices.front() == 0;
  if (row.indices.back() > found.largest || found.largest_at.empty()) {
    found.largest = row.indices.back();
    found.largest_at = fmt::format("{}:{}:{}", line.name(), line.number(), row.last_at);
  }
}

}  // namespace

bool parse_libsvm(const LineReader& line, std::string_view text, LibsvmRow& row) {
  row.indices.clear();
  row.values.clear();
  Scanner scan(line, text);
  if (!scan.skip_blanks()) return false;
  row.line = line.number();
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

void SpilledExamples::add(const LibsvmRow& row) {
  file_.append(SpillHead{row.label, row.indices.size()});
  file_.append(std::span<const std::uint32_t>(row.indices));
  file_.append(std::span<const float>(row.values));
  ++size_;
}

void SpilledExamples::for_each(const std::function<void(std::int64_t, const LibsvmRow&)>& visit) {
  SpillReader reader(file_);
  LibsvmRow row;
  std::int64_t number = 0;
  for (SpillHead head{}; reader.next(head); ++number) {
    row.label = head.label;
    row.indices.resize(head.count);
    row.values.resize(head.count);
    reader.take(std::span(row.indices));
    reader.take(std::span(row.values));
    visit(number, row);
  }
}

void read_libsvm(LineReader& lines, const LibsvmOptions& options, LibsvmFindings& found,
                 const std::map<double, std::int32_t>* classes, const std::function<void(const LibsvmRow& row)>& keep) {
  const RowFormat<LibsvmRow> format{.none = "examples", .parse = parse_libsvm};
  read_rows(lines, format, [&](const LineReader& line, const LibsvmRow& row) {
    classes == nullptr ? note_label(line, row, options, found) : check_label(line, row, *classes);
    note_indices(line, row, options, found);
    found.all_ones =
        found.all_ones && std::all_of(row.values.begin(), row.values.end(), [](float value) { return value == 1; });
    keep(row);
  });
}

std::map<double, std::int32_t> decide_classes(const LibsvmFindings& found, const LibsvmOptions& options,
                                              const std::string& path) {
  if (options.task == Task::regression || !found.whole_labels) return {};
  if (found.too_many_labels) ask_for_task(path, fmt::format("more than {}", kMostNumberedClasses));
  std::map<double, std::int32_t> classes = found.labels;
  std::int32_t next = 0;
  for (auto& [label, number] : classes) number = next++;
  return classes;
}

std::int64_t decide_base(const LibsvmFindings& found, const LibsvmOptions& options) {
  if (options.base == IndexBase::automatic) return found.zero_index ? 0 : 1;
  return options.base == IndexBase::zero ? 0 : 1;
}

std::int64_t decide_columns(const LibsvmFindings& found, const LibsvmOptions& options, const std::string& path) {
  const std::int64_t base = decide_base(found, options);
  const std::int64_t needed = found.largest_at.empty() ? 0 : std::int64_t{found.largest} - base + 1;
  if (options.columns == 0 && needed == 0)
    throw DataError(path + ": no example has a value; if that is intended, set --columns");
  if (needed > kMostColumns)
    throw DataError(fmt::format("{}: the index {} needs more than 2³² − 1 columns, counted from {}", found.largest_at,
                                found.largest, base));
  if (options.columns == 0 || needed <= options.columns) return std::max(needed, options.columns);
  throw DataError(fmt::format("{}: the index {} is beyond --columns {}, of which the first has the index {}",
                              found.largest_at, found.largest, options.columns, base));
}

}  // namespace unisono::data
