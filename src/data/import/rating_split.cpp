#include "import/rating_split.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

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

}  // namespace

void SpilledRatings::for_each(const std::function<void(const NumberedRating&)>& visit) {
  SpillReader reader(file_);
  for (NumberedRating rating; reader.next(rating);) visit(rating);
}

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

}  // namespace unisono::data
