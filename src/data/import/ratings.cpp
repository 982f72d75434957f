#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "import/csv_dialect.hpp"
#include "import/rating_line.hpp"
#include "import/rows.hpp"
#include "import/set_writer.hpp"
#include "import/spill.hpp"
#include "import/string_table.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {
namespace {

/// A rating whose user and item are numbers.
struct NumberedRating {
  std::uint32_t user = 0, item = 0;
  float value = 0;
  double time = 0;
};

/// Ratings that are set aside on the disk.
class SpilledRatings {
 public:
  explicit SpilledRatings(const std::string& beside) : file_(beside) {}
  void add(const NumberedRating& rating) { file_.append(rating); }
  void for_each(const std::function<void(const NumberedRating&)>& visit);
  std::int64_t size() const { return static_cast<std::int64_t>(file_.bytes() / sizeof(NumberedRating)); }

 private:
  SpillFile file_;
};

/// Of those that are for training, a share at random.
void choose_validation(std::vector<Split>& splits, const RatingsOptions& options) {
  const auto rest = std::count(splits.begin(), splits.end(), Split::train);
  const RowSplit chosen(rest, {.validation = options.validation_fraction, .seed = options.seed});
  std::int64_t number = 0;
  for (Split& split : splits) {
    if (split == Split::train) split = chosen.of(number++);
  }
}

/// Each user's last rating is for testing, if there is another. Of several at the last time it is the last line.
void take_last_of_users(SpilledRatings& ratings, std::uint32_t users, std::vector<Split>& splits) {
  struct Last {
    std::uint64_t ratings = 0, row = 0;
    double time = 0;
  };
  std::vector<Last> last(users);
  std::uint64_t row = 0;
  ratings.for_each([&](const NumberedRating& rating) {
    Last& of_user = last[rating.user];
    if (of_user.ratings++ == 0 || rating.time >= of_user.time) of_user = {of_user.ratings, row, rating.time};
    ++row;
  });
  for (const Last& of_user : last) {
    if (of_user.ratings >= 2) splits[of_user.row] = Split::test;
  }
}

/// The places of an order by time from `first` on, found without sorting: later times, and at the time of place `first`
/// the lines behind those that come before it.
class TimeCut {
 public:
  TimeCut(std::vector<double>& times, std::int64_t first) {
    if (first == static_cast<std::int64_t>(times.size())) return;
    const auto at = times.begin() + first;
    std::nth_element(times.begin(), at, times.end());
    time_ = *at;
    // Left of `at` nothing is later, right of it nothing is earlier.
    before_ = std::count(times.begin(), at, time_);
    empty_ = false;
  }
  /// To be asked for all ratings, in the order of their lines.
  bool is_behind(double time) { return !empty_ && (time > time_ || (time == time_ && --before_ < 0)); }

 private:
  bool empty_ = true;
  double time_ = 0;
  std::int64_t before_ = 0;
};

void take_latest(SpilledRatings& ratings, const RatingsOptions& options, std::vector<Split>& splits) {
  std::vector<double> times;
  times.reserve(splits.size());
  ratings.for_each([&](const NumberedRating& rating) { times.push_back(rating.time); });
  const std::int64_t first_test = ratings.size() - share_of(ratings.size(), options.test_fraction);
  const std::int64_t first_validation = first_test - share_of(ratings.size(), options.validation_fraction);
  TimeCut test(times, first_test), validation(times, first_validation);
  std::size_t row = 0;
  ratings.for_each([&](const NumberedRating& rating) {
    const bool is_validation = validation.is_behind(rating.time), is_test = test.is_behind(rating.time);
    splits[row++] = is_test ? Split::test : is_validation ? Split::validation : Split::train;
  });
}

void SpilledRatings::for_each(const std::function<void(const NumberedRating&)>& visit) {
  SpillReader reader(file_);
  for (NumberedRating rating; reader.next(rating);) visit(rating);
}

/// Which group each rating belongs to, by one of RatingsOptions' ways. \param users how many there are
std::vector<Split> split_ratings(SpilledRatings& ratings, std::uint32_t users, const RatingsOptions& options) {
  std::vector<Split> splits(static_cast<std::size_t>(ratings.size()), Split::train);
  if (options.split == RatingSplit::time) {
    take_latest(ratings, options, splits);
  } else if (options.split == RatingSplit::leave_one_out) {
    take_last_of_users(ratings, users, splits);
    choose_validation(splits, options);
  } else if (options.split == RatingSplit::random) {
    const RowSplit chosen(ratings.size(), {options.validation_fraction, options.test_fraction, options.seed});
    for (std::size_t row = 0; row < splits.size(); ++row) splits[row] = chosen.of(static_cast<std::int64_t>(row));
  }
  return splits;
}

constexpr double kMostExact = 9007199254740992.0;  // 2⁵³: whole numbers up to it are exact in a double

void check_options(const RatingsOptions& options) {
  check_shares({options.validation_fraction, options.test_fraction, options.seed}, "ratings", options.test_file);
  if (options.split == RatingSplit::none && options.validation_fraction + options.test_fraction > 0)
    throw ConfigError("--split none leaves all ratings for training; remove the fractions, or use --split random");
  if (options.split != RatingSplit::leave_one_out) return;
  if (options.test_fraction > 0)
    throw ConfigError("--split leave_one_out uses one rating of each user for the test; remove --test-fraction");
  if (!options.test_file.empty()) throw ConfigError("--split leave_one_out and --test-file cannot be combined");
}

/// What the files show together.
struct RatingsFindings {
  StringTable users, items;
  std::size_t fields = 0;   ///< of a line; 0: none was read
  bool whole_times = true;  ///< every time is a whole number
  std::string delimiter, header;
};

void check_fields(const LineReader& line, const RatingsDialect& dialect, RatingsFindings& found) {
  if (found.fields == 0) found.fields = dialect.fields;
  if (found.fields == dialect.fields) return;
  line.fail(
      fmt::format("the lines have {} fields, but those of the previous file have {}", dialect.fields, found.fields));
}

void read_ratings(const std::string& path, const RatingsOptions& options, RatingsFindings& found,
                  SpilledRatings& ratings) {
  const OpenText open = text_of(path);
  const RatingsDialect dialect = detect_ratings(open, options.delimiter, options.header);
  const bool is_first = found.fields == 0;
  if (is_first) found.delimiter = dialect.delimiter;
  RowFormat<Rating> format{.none = "ratings",
                           .parse = [&](const LineReader& line, const std::string& text, Rating& rating) {
                             rating = parse_rating(line, text, dialect);
                             return true;
                           }};
  if (dialect.header) {
    format.names = [&](const LineReader&, const std::string& text) {
      if (is_first) found.header = text;
    };
  }
  const std::int64_t before = ratings.size();
  read_rows(*open(), format, [&](const LineReader& line, const Rating& rating) {
    if (ratings.size() == before) check_fields(line, dialect, found);
    found.whole_times =
        found.whole_times && rating.time == std::trunc(rating.time) && std::abs(rating.time) <= kMostExact;
    ratings.add({found.users.number_of(rating.user), found.items.number_of(rating.item), rating.value, rating.time});
  });
}

class RatingGroupWriter {
 public:
  RatingGroupWriter(SetWriter& writer, Split split, std::uint64_t size, const RatingsFindings& found)
      : users_(writer, path(split, "users"), size),
        items_(writer, path(split, "items"), size),
        ratings_(writer, path(split, "ratings"), size) {
    if (found.fields < 4) return;
    if (found.whole_times) {
      whole_times_.emplace(writer, path(split, "times"), size);
    } else {
      times_.emplace(writer, path(split, "times"), size);
    }
  }

  void add(const NumberedRating& rating) {
    users_.add(rating.user);
    items_.add(rating.item);
    ratings_.add(rating.value);
    if (times_) times_->add(rating.time);
    if (whole_times_) whole_times_->add(static_cast<std::int64_t>(rating.time));
  }

  void finish() {
    users_.finish();
    items_.finish();
    ratings_.finish();
    if (times_) times_->finish();
    if (whole_times_) whole_times_->finish();
  }

 private:
  static std::string path(Split split, const char* dataset) { return fmt::format("{}/{}", name_of(split), dataset); }

  ColumnWriter<std::uint32_t> users_, items_;
  ColumnWriter<float> ratings_;
  std::optional<ColumnWriter<double>> times_;
  std::optional<ColumnWriter<std::int64_t>> whole_times_;
};

/// \param splits of the training files' ratings; those of the test file are for testing
void write_groups(SpilledRatings& training, SpilledRatings& test, const std::vector<Split>& splits,
                  const std::array<std::uint64_t, 3>& sizes, const RatingsFindings& found, SetWriter& writer) {
  std::array<std::optional<RatingGroupWriter>, 3> groups;
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const auto i = static_cast<std::size_t>(split);
    if (sizes[i] > 0) groups[i].emplace(writer, split, sizes[i], found);
  }
  std::size_t row = 0;
  training.for_each(
      [&](const NumberedRating& rating) { groups[static_cast<std::size_t>(splits[row++])]->add(rating); });
  test.for_each([&](const NumberedRating& rating) { groups[static_cast<std::size_t>(Split::test)]->add(rating); });
  for (auto& group : groups) {
    if (group) group->finish();
  }
}

std::array<std::uint64_t, 3> count_groups(const std::vector<Split>& splits, std::int64_t test) {
  std::array<std::uint64_t, 3> sizes{};
  for (const Split split : splits) ++sizes[static_cast<std::size_t>(split)];
  sizes[static_cast<std::size_t>(Split::test)] += static_cast<std::uint64_t>(test);
  return sizes;
}

constexpr std::string_view kBlanks = " \t";
constexpr std::array<const char*, 4> kRatingFields = {"user", "item", "rating", "time"};

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Fields of most of the lines, if they are a rating's; else 0.
std::size_t common_fields(const std::vector<std::string>& sample, std::string_view delimiter) {
  std::array<std::size_t, std::tuple_size_v<RatingFields> + 1> lines{};
  RatingFields fields;
  for (const std::string& line : sample) ++lines[split_rating(line, delimiter, fields)];
  for (const std::size_t count : {3, 4}) {
    if (2 * lines[count] > sample.size()) return count;
  }
  return 0;
}

std::string detect_delimiter(const std::string& name, const std::vector<std::string>& sample) {
  for (const char* delimiter : {"::", "\t", ",", ";", "|", " "}) {
    if (common_fields(sample, delimiter) > 0) return delimiter;
  }
  throw DataError(fmt::format(
      "{}: no delimiter found: neither '::' nor tabs, commas, semicolons, bars or spaces split most of the first lines "
      "into user, item, rating (and time); set --delimiter; if there are no ratings, add a column of ones",
      name));
}

std::string parse_rating_delimiter(const std::string& delimiter) {
  if (delimiter == "tab" || delimiter == "\\t") return "\t";
  if (delimiter == "::" || (delimiter.size() == 1 && delimiter != "\n" && delimiter != "\r")) return delimiter;
  throw ConfigError(fmt::format("--delimiter '{}': it must be one character, '::', 'tab' or 'auto'", delimiter));
}

/// Whether the first line has a word wherever all lines below have numbers, at least in one place.
bool detect_header(const std::vector<std::string>& sample, std::string_view delimiter) {
  RatingFields names, fields;
  const std::size_t count = split_rating(sample[0], delimiter, names);
  std::vector<bool> numbers(count, sample.size() > 1);
  for (std::size_t i = 1; i < sample.size(); ++i) {
    const std::size_t here = split_rating(sample[i], delimiter, fields);
    for (std::size_t c = 0; c < count; ++c) numbers[c] = numbers[c] && c < here && parse_number(fields[c]);
  }
  bool words = false;
  for (std::size_t c = 0; c < count; ++c) {
    if (numbers[c] && parse_number(names[c])) return false;
    words = words || (numbers[c] && !is_missing(names[c]));
  }
  return words;
}

[[noreturn]] void fail_in_column(const LineReader& line, std::size_t column, const std::string& what) {
  line.fail(fmt::format("column {} ({}): {}", column + 1, kRatingFields[column], what));
}

void check_id(const LineReader& line, std::size_t column, std::string_view id) {
  if (id.empty()) fail_in_column(line, column, "is empty");
  if (find_invalid_utf8(id) != std::string_view::npos)
    fail_in_column(line, column, "is not UTF-8; convert the file, for example with 'iconv -f latin1 -t utf-8'");
}

}  // namespace

RatingsSummary import_ratings(const std::vector<std::string>& paths, const RatingsOptions& options,
                              const ImportOutput& output) {
  check_options(options);
  SetWriter writer(output);
  RatingsFindings found;
  SpilledRatings training(output.path), test(output.path);
  for (const std::string& path : paths) read_ratings(path, options, found, training);
  if (options.split == RatingSplit::time && found.fields < 4)
    throw DataError(paths[0] + ": has no times, which --split time needs");
  if (!options.test_file.empty()) read_ratings(options.test_file, options, found, test);

  const std::vector<Split> splits = split_ratings(training, found.users.size(), options);
  const std::array<std::uint64_t, 3> sizes = count_groups(splits, test.size());
  if (sizes[0] == 0)
    throw DataError(fmt::format("{}: no ratings are left for training (the files have {}); use smaller fractions",
                                paths[0], training.size()));
  write_groups(training, test, splits, sizes, found, writer);
  writer.file().write_names("dictionary/users", found.users.strings());
  writer.file().write_names("dictionary/items", found.items.strings());
  writer.finish();
  return {.path = output.path,
          .train = static_cast<std::int64_t>(sizes[0]),
          .validation = static_cast<std::int64_t>(sizes[1]),
          .test = static_cast<std::int64_t>(sizes[2]),
          .users = found.users.size(),
          .items = found.items.size(),
          .times = found.fields == 4,
          .delimiter = found.delimiter,
          .header = found.header};
}

std::size_t split_rating(std::string_view text, std::string_view delimiter, RatingFields& fields) {
  const bool blanks = delimiter == " ";
  std::size_t count = 0;
  for (text = without_blanks(text); count < fields.size(); ++count) {
    const std::size_t end = blanks ? text.find_first_of(kBlanks) : text.find(delimiter);
    fields[count] = without_blanks(text.substr(0, end));
    if (end == std::string_view::npos) return count + 1;
    text.remove_prefix(end + delimiter.size());
    if (blanks) text = without_blanks(text);
  }
  return count;
}

RatingsDialect detect_ratings(const OpenText& open, const std::string& delimiter, Header header) {
  const auto lines = open();
  RatingsDialect dialect;
  if (delimiter != "auto") dialect.delimiter = parse_rating_delimiter(delimiter);
  const std::vector<std::string> sample = first_lines(*lines, "a file of ratings has at least one line");
  if (delimiter == "auto") dialect.delimiter = detect_delimiter(lines->name(), sample);
  dialect.header = header == Header::automatic ? detect_header(sample, dialect.delimiter) : header == Header::yes;
  RatingFields fields;
  dialect.fields = std::clamp<std::size_t>(split_rating(sample[0], dialect.delimiter, fields), 3, 4);
  return dialect;
}

Rating parse_rating(const LineReader& line, std::string_view text, const RatingsDialect& dialect) {
  RatingFields fields;
  const std::size_t count = split_rating(text, dialect.delimiter, fields);
  if (count != dialect.fields) {
    const std::size_t at =
        count < dialect.fields ? text.size() : static_cast<std::size_t>(fields[dialect.fields].data() - text.data());
    line.fail(at + 1,
              fmt::format("has {}, but {} are expected: user, item, rating{}",
                          count > 4 ? "more than 4 fields" : count_of(static_cast<std::int64_t>(count), "field"),
                          dialect.fields, dialect.fields == 4 ? ", time" : ""));
  }
  Rating rating{.user = fields[0], .item = fields[1]};
  check_id(line, 0, rating.user);
  check_id(line, 1, rating.item);
  const auto value = parse_number(fields[2]);
  if (!value || std::abs(*value) > double{std::numeric_limits<float>::max()})
    fail_in_column(line, 2, fmt::format("'{}' is not a number in the range of float32", fields[2]));
  rating.value = static_cast<float>(*value);
  if (count < 4) return rating;
  const auto time = parse_number(fields[3]);
  if (!time) fail_in_column(line, 3, fmt::format("'{}' is not a number; write times as seconds", fields[3]));
  rating.time = *time;
  return rating;
}

}  // namespace unisono::data
