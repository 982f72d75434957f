#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "import/column_writer.hpp"
#include "import/rating_line.hpp"
#include "import/rating_split.hpp"
#include "import/string_table.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

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

}  // namespace

}  // namespace unisono::data

namespace unisono::data {

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

}  // namespace unisono::data
