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
  const RandomSplit chosen(rest, {.validation = options.validation_fraction, .seed = options.seed});
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
    const RandomSplit chosen(ratings.size(), shares_of(options));
    for (std::size_t row = 0; row < splits.size(); ++row) splits[row] = chosen.of(static_cast<std::int64_t>(row));
  }
  return splits;
}

constexpr double kMostExact = 9007199254740992.0;  // 2⁵³: whole numbers up to it are exact in a double

void check_options(const RatingsOptions& options) {
  check_shares(shares_of(options), "ratings", options.test_file);
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
  std::string delimiter, header, columns;
  std::array<std::size_t, 4> places = {};  ///< of the first file's columns
};

void check_fields(const LineReader& line, const RatingsDialect& dialect, RatingsFindings& found) {
  if (found.fields == 0) found.fields = dialect.fields;
  if (found.fields == dialect.fields) return;
  line.fail(
      fmt::format("the lines have {} fields, but those of the previous file have {}", dialect.fields, found.fields));
}

/// Whether columns that are taken by their places look like others.
class PlacesCheck {
 public:
  void add(const Rating& rating) {
    const auto user = parse_number(rating.user);
    if (rows_ == 0) first_user_ = user.value_or(0);
    counts_ = counts_ && user == first_user_ + static_cast<double>(rows_);
    ++rows_;
    least_rating_ = std::min(least_rating_, double{rating.value});
    latest_ = std::max(latest_, rating.time);
  }

  void check(const std::string& path) const {
    constexpr double kNoRating = 1e8, kNoTime = 1e6;  // seconds since 1970 are more than 10⁸ from 1973 on
    if (latest_ >= kNoTime) return;
    if (least_rating_ >= kNoRating) fail(path, "the third column looks like times, the fourth like ratings");
    if (counts_ && rows_ >= 10)
      fail(path, "the first column counts the lines, and the fourth does not look like times");
  }

 private:
  [[noreturn]] static void fail(const std::string& path, const char* what) {
    throw DataError(fmt::format("{}: {}; set --columns user=…,item=…,rating=…,time=… with their numbers", path, what));
  }

  bool counts_ = true;
  double first_user_ = 0;
  std::int64_t rows_ = 0;
  double least_rating_ = std::numeric_limits<double>::infinity(), latest_ = -least_rating_;
};

void read_ratings(const std::string& path, const RatingsOptions& options, RatingsFindings& found,
                  SpilledRatings& ratings) {
  const OpenText open = text_of(path, options.form.encoding);
  const RatingsDialect dialect = detect_ratings(open, options);
  const bool is_first = found.fields == 0;
  if (is_first) {
    found.delimiter = dialect.delimiter;
    found.columns = dialect.said;
    found.places = dialect.columns;
  }
  if (!dialect.header && dialect.columns != found.places)
    throw DataError(
        fmt::format("{}: has no names of columns, by which those of the first file were found ({}); "
                    "set --columns",
                    path, found.columns));
  RatingFields fields;
  PlacesCheck places;
  RowFormat<Rating> format{.none = "ratings",
                           .parse = [&](const LineReader& line, const std::string& text, Rating& rating) {
                             rating = parse_rating(line, text, dialect, fields);
                             return true;
                           }};
  if (dialect.header) {
    format.names = [&](const LineReader& line, const std::string& text) {
      if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
        line.fail(at + 1, not_utf8(text[at]));
      if (is_first) found.header = text;
    };
  }
  const std::int64_t before = ratings.size();
  read_rows(*open(), format, [&](const LineReader& line, const Rating& rating) {
    if (ratings.size() == before) check_fields(line, dialect, found);
    places.add(rating);
    found.whole_times =
        found.whole_times && rating.time == std::trunc(rating.time) && std::abs(rating.time) <= kMostExact;
    ratings.add({found.users.number_of(rating.user), found.items.number_of(rating.item), rating.value, rating.time});
  });
  if (!dialect.named && dialect.fields == 4) places.check(path);
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
          .header = found.header,
          .columns = found.columns};
}

}  // namespace unisono::data
