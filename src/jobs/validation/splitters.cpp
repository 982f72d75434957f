#include "validation/splitters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::jobs {
namespace {

/// Random numbers of a repetition, and of a class in it.
RandomStream fold_stream(std::uint64_t seed, std::uint64_t repeat, std::uint32_t stratum = 0) {
  return {seed, Purpose::split, repeat, stratum + 1};  // 0 is data.validation_fraction's
}

/// How many of n examples shuffle_split holds out. \throws ConfigError if none are left to train on
std::int64_t held_out_rows(std::int64_t rows, double fraction) {
  const auto held_out = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(rows)));
  if (held_out < rows) return held_out;
  throw ConfigError(
      fmt::format("[cross_validation] held_out_fraction = {} of {} training examples leaves none to train "
                  "on; use a smaller one",
                  fraction, rows));
}

using Rows = std::vector<std::int64_t>;

void require(bool holds, const std::string& message) {
  if (!holds) throw ConfigError("[cross_validation] " + message);
}

void require_examples(std::int64_t rows, std::int64_t folds) {
  require(folds >= 2, "folds = 1 leaves nothing to train on; use at least 2");
  require(rows >= folds,
          fmt::format("folds = {}, but there are only {} training examples; use fewer folds", folds, rows));
}

Rows in_order(std::int64_t rows) {
  Rows order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Number `i` of `parts` parts of some rows, of which the first n mod parts have one row more; ascending.
Rows part(const Rows& order, std::int64_t i, std::int64_t parts) {
  const std::int64_t n = std::ssize(order), small = n / parts, larger = n % parts;
  const std::int64_t first = i * small + std::min(i, larger), size = small + (i < larger ? 1 : 0);
  Rows rows(order.begin() + first, order.begin() + first + size);
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<Rows> rows_by_value(std::span<const std::int64_t> column) {
  std::map<std::int64_t, Rows> found;
  for (std::size_t row = 0; row < column.size(); ++row) found[column[row]].push_back(static_cast<std::int64_t>(row));
  std::vector<Rows> groups;
  for (auto& [value, rows] : found) groups.push_back(std::move(rows));
  return groups;
}

/// The number of choices of p of n; one more than `most` where there are more.
std::int64_t choices(std::int64_t n, std::int64_t p, std::int64_t most) {
  long double count = 1;
  for (std::int64_t i = 1; i <= p; ++i) {
    count = count * static_cast<long double>(n - p + i) / static_cast<long double>(i);
    if (count > static_cast<long double>(most) + 0.5L) return most + 1;
  }
  return static_cast<std::int64_t>(std::llround(count));
}

}  // namespace

data::Fold Folds::fold(std::int64_t number) const {
  data::Fold fold;
  fold.validation = validation(number);
  if (!training_.empty()) {
    fold.train = training_[static_cast<std::size_t>(number)];
    return fold;
  }
  fold.train.reserve(static_cast<std::size_t>(training_size(number)));
  auto next = fold.validation.begin();
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (next != fold.validation.end() && *next == row) {
      ++next;
    } else {
      fold.train.push_back(row);
    }
  }
  return fold;
}

Folds k_fold(std::int64_t rows, std::int64_t folds, const std::uint64_t* seed, std::uint64_t repeat) {
  require_examples(rows, folds);
  Rows order = in_order(rows);
  if (seed != nullptr) shuffle(std::span(order), fold_stream(*seed, repeat));
  std::vector<Rows> validation;
  for (std::int64_t i = 0; i < folds; ++i) validation.push_back(part(order, i, folds));
  return {rows, std::move(validation)};
}

Folds leave_one_out(std::int64_t rows, std::int64_t most_fits) {
  require(rows >= 2, "leave_one_out needs at least 2 training examples");
  require(rows <= most_fits,
          fmt::format("leave_one_out needs {} fits, more than most_fits = {}; use k_fold, or raise most_fits", rows,
                      most_fits));
  std::vector<Rows> validation;
  for (std::int64_t row = 0; row < rows; ++row) validation.push_back({row});
  return {rows, std::move(validation)};
}

Folds leave_p_out(std::int64_t rows, std::int64_t p, std::int64_t most_fits) {
  require(p < rows, fmt::format("p = {}, but there are only {} training examples; use a smaller p", p, rows));
  require(choices(rows, p, most_fits) <= most_fits,
          fmt::format("leave_p_out with p = {} of {} training examples needs more than most_fits = {} fits; use "
                      "shuffle_split, which draws some of them, or raise most_fits",
                      p, rows, most_fits));
  std::vector<Rows> validation;
  Rows chosen = in_order(p);
  while (true) {
    validation.push_back(chosen);
    std::int64_t i = p - 1;  // the last one that can move on
    while (i >= 0 && chosen[static_cast<std::size_t>(i)] == rows - p + i) --i;
    if (i < 0) break;
    ++chosen[static_cast<std::size_t>(i)];
    for (auto k = static_cast<std::size_t>(i) + 1; k < chosen.size(); ++k) chosen[k] = chosen[k - 1] + 1;
  }
  return {rows, std::move(validation)};
}

Folds group_k_fold(std::span<const std::int64_t> column, std::int64_t folds) {
  require_examples(std::ssize(column), folds);
  std::vector<Rows> groups = rows_by_value(column);
  require(std::ssize(groups) >= folds, fmt::format("folds = {}, but there are only {} groups; use at most {} folds",
                                                   folds, groups.size(), groups.size()));
  std::reverse(groups.begin(), groups.end());
  std::stable_sort(groups.begin(), groups.end(), [](const Rows& a, const Rows& b) { return a.size() > b.size(); });
  std::vector<Rows> validation(static_cast<std::size_t>(folds));
  for (const Rows& group : groups) {
    const auto lightest = std::min_element(validation.begin(), validation.end(),
                                           [](const Rows& a, const Rows& b) { return a.size() < b.size(); });
    lightest->insert(lightest->end(), group.begin(), group.end());
  }
  for (Rows& rows : validation) std::sort(rows.begin(), rows.end());
  return {std::ssize(column), std::move(validation)};
}

Folds shuffle_split(std::int64_t rows, std::int64_t folds, double fraction, std::uint64_t seed) {
  const std::int64_t held_out = held_out_rows(rows, fraction);
  std::vector<Rows> validation;
  for (std::int64_t i = 0; i < folds; ++i) {
    Rows order = in_order(rows);
    shuffle(std::span(order), fold_stream(seed, static_cast<std::uint64_t>(i)));
    order.resize(static_cast<std::size_t>(held_out));
    std::sort(order.begin(), order.end());
    validation.push_back(std::move(order));
  }
  return {rows, std::move(validation)};
}

Folds time_series(std::int64_t rows, std::span<const std::int64_t> times, std::int64_t folds, std::int64_t gap) {
  const std::int64_t size = rows / (folds + 1), first = rows - folds * size;
  require(size >= 1,
          fmt::format("time_series with folds = {} needs at least {} training examples, but there are {}; use "
                      "fewer folds",
                      folds, folds + 1, rows));
  require(gap < first,
          fmt::format("gap = {} leaves the first fold no training examples; use a gap below {}", gap, first));
  Rows order = in_order(rows);
  if (!times.empty()) {
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return times[static_cast<std::size_t>(a)] < times[static_cast<std::size_t>(b)];
    });
  }
  const auto between = [&](std::int64_t from, std::int64_t to) {
    Rows chosen(order.begin() + from, order.begin() + to);
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  };
  std::vector<Rows> validation, training;
  for (std::int64_t start = first; start < rows; start += size) {
    validation.push_back(between(start, start + size));
    training.push_back(between(0, start - gap));
  }
  return {rows, std::move(validation), std::move(training)};
}

Folds predefined(std::span<const std::int64_t> column) {
  std::vector<Rows> validation = rows_by_value(column);
  const bool some_never = std::find(column.begin(), column.end(), -1) != column.end();
  if (some_never) {
    const auto never = std::find_if(validation.begin(), validation.end(), [&](const Rows& rows) {
      return column[static_cast<std::size_t>(rows.front())] == -1;
    });
    validation.erase(never);
  }
  require(std::ssize(validation) + (some_never ? 1 : 0) >= 2 && !validation.empty(),
          "the column of predefined folds has one value only, which leaves nothing to train on or nothing to validate");
  return {std::ssize(column), std::move(validation)};
}

std::string column_of(const settings::CrossValidationSettings& settings) {
  switch (settings.method) {
    case settings::FoldMethod::group_k_fold:
      return settings.group;
    case settings::FoldMethod::time_series:
      return settings.time;
    case settings::FoldMethod::predefined:
      return settings.column;
    default:
      return {};
  }
}

double overlap_of(const settings::CrossValidationSettings& settings, const Folds& folds) {
  const bool overlaps = settings.method == settings::FoldMethod::repeated_k_fold ||
                        settings.method == settings::FoldMethod::shuffle_split;
  if (!overlaps) return 0;
  std::int64_t validation = 0, training = 0;
  for (std::int64_t fold = 0; fold < folds.size(); ++fold) {
    validation += std::ssize(folds.validation(fold));
    training += folds.training_size(fold);
  }
  return static_cast<double>(validation) / static_cast<double>(training);
}

bool validates_each_once(const settings::CrossValidationSettings& settings, const Folds& folds) {
  switch (settings.method) {
    case settings::FoldMethod::k_fold:
    case settings::FoldMethod::leave_one_out:
    case settings::FoldMethod::group_k_fold:
      return true;
    case settings::FoldMethod::predefined: {
      std::int64_t validated = 0;
      for (std::int64_t i = 0; i < folds.size(); ++i) validated += std::ssize(folds.validation(i));
      return validated == folds.rows();
    }
    case settings::FoldMethod::repeated_k_fold:
      return settings.repeats == 1;
    case settings::FoldMethod::leave_p_out:
      return settings.p == 1;
    default:
      return false;
  }
}

Folds make_folds(const settings::CrossValidationSettings& settings, const FoldInput& input) {
  const bool stratified = settings.stratified && !input.labels.empty();
  const auto seed = static_cast<std::uint64_t>(settings.split_seed);
  const auto divide = [&](const std::uint64_t* with, std::uint64_t repeat) {
    return stratified ? stratified_k_fold(input.labels, settings.folds, with, repeat)
                      : k_fold(input.rows, settings.folds, with, repeat);
  };
  switch (settings.method) {
    case settings::FoldMethod::k_fold:
      return divide(settings.shuffle ? &seed : nullptr, 0);
    case settings::FoldMethod::repeated_k_fold: {
      std::vector<Rows> validation;
      for (std::int64_t repeat = 0; repeat < settings.repeats; ++repeat) {
        const Folds once = divide(&seed, static_cast<std::uint64_t>(repeat));
        for (std::int64_t i = 0; i < once.size(); ++i) validation.push_back(once.validation(i));
      }
      return {input.rows, std::move(validation)};
    }
    case settings::FoldMethod::leave_one_out:
      return leave_one_out(input.rows, settings.most_fits);
    case settings::FoldMethod::leave_p_out:
      return leave_p_out(input.rows, settings.p, settings.most_fits);
    case settings::FoldMethod::group_k_fold:
      require(!settings.group.empty(), "group is empty; name the column that says which examples belong together");
      return group_k_fold(input.column, settings.folds);
    case settings::FoldMethod::shuffle_split:
      return stratified ? stratified_shuffle_split(input.labels, settings.folds, settings.held_out_fraction, seed)
                        : shuffle_split(input.rows, settings.folds, settings.held_out_fraction, seed);
    case settings::FoldMethod::time_series:
      return time_series(input.rows, input.column, settings.folds, settings.gap);
    case settings::FoldMethod::predefined:
      require(!settings.column.empty(), "column is empty; name the column that says in which fold an example is");
      return predefined(input.column);
  }
  throw ConfigError("[cross_validation] unknown method");
}

// Splitters that keep the shares of the classes.

namespace {

using Rows = std::vector<std::int64_t>;

/// The rows of each class that has some. Classes in the order of their first rows.
std::vector<Rows> rows_by_class(std::span<const std::int32_t> labels) {
  std::vector<Rows> classes;
  std::vector<std::size_t> known;  // by label: 1 + its place in `classes`
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto label = static_cast<std::size_t>(labels[row]);
    if (label >= known.size()) known.resize(label + 1);
    if (known[label] == 0) known[label] = classes.size() + 1, classes.emplace_back();
    classes[known[label] - 1].push_back(static_cast<std::int64_t>(row));
  }
  return classes;
}

std::int64_t smallest(const std::vector<Rows>& classes) {
  std::int64_t least = std::ssize(classes.front());
  for (const Rows& rows : classes) least = std::min<std::int64_t>(least, std::ssize(rows));
  return least;
}

/// How many of `draws` examples are of each class: ⌊its share of them⌋, and one more for the largest remainders.
std::vector<std::int64_t> shares_of(const std::vector<Rows>& classes, std::int64_t rows, std::int64_t draws) {
  std::vector<std::int64_t> shares;
  std::vector<std::pair<std::int64_t, std::size_t>> remainders;
  std::int64_t left = draws;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::int64_t exact = std::ssize(classes[i]) * draws;  // over `rows`
    shares.push_back(exact / rows);
    remainders.emplace_back(-(exact % rows), i);
    left -= shares.back();
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t i = 0; left > 0; ++i, --left) ++shares[remainders[i].second];
  return shares;
}

}  // namespace

/// The classes follow each other in a row that is dealt out to the folds one by one; so folds differ by at most one
/// example in each class and in all.
Folds stratified_k_fold(std::span<const std::int32_t> labels, std::int64_t folds, const std::uint64_t* seed,
                        std::uint64_t repeat) {
  std::vector<Rows> classes = rows_by_class(labels);
  if (folds > smallest(classes)) {
    throw ConfigError(
        fmt::format("[cross_validation] folds = {}, but a class has only {} training examples; use fewer "
                    "folds, or stratified = false",
                    folds, smallest(classes)));
  }
  std::vector<Rows> validation(static_cast<std::size_t>(folds));
  std::int64_t dealt = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    Rows& rows = classes[i];
    if (seed != nullptr) shuffle(std::span(rows), fold_stream(*seed, repeat, static_cast<std::uint32_t>(i)));
    const std::int64_t n = std::ssize(rows);
    auto next = rows.begin();
    for (std::int64_t fold = 0; fold < folds; ++fold) {
      // Its places in [dealt, dealt + n) are those that are `fold` modulo `folds`.
      const std::int64_t skipped = ((fold - dealt) % folds + folds) % folds;
      const std::int64_t count = n > skipped ? (n - skipped - 1) / folds + 1 : 0;
      validation[static_cast<std::size_t>(fold)].insert(validation[static_cast<std::size_t>(fold)].end(), next,
                                                        next + count);
      next += count;
    }
    dealt += n;
  }
  for (Rows& rows : validation) std::sort(rows.begin(), rows.end());
  return {std::ssize(labels), std::move(validation)};
}

Folds stratified_shuffle_split(std::span<const std::int32_t> labels, std::int64_t folds, double fraction,
                               std::uint64_t seed) {
  const std::vector<Rows> classes = rows_by_class(labels);
  const std::int64_t rows = std::ssize(labels), held_out = held_out_rows(rows, fraction), k = std::ssize(classes);
  if (smallest(classes) < 2 || held_out < k || rows - held_out < k) {
    throw ConfigError(
        fmt::format("[cross_validation] {} of {} training examples are held out, but there are {} classes, "
                    "the smallest with {}: each needs one for training and one for validation; change "
                    "held_out_fraction, or use stratified = false",
                    held_out, rows, k, smallest(classes)));
  }
  const std::vector<std::int64_t> trained = shares_of(classes, rows, rows - held_out);
  std::vector<Rows> validation;
  for (std::int64_t fold = 0; fold < folds; ++fold) {
    Rows& chosen = validation.emplace_back();
    for (std::size_t i = 0; i < classes.size(); ++i) {
      Rows of_class = classes[i];
      shuffle(std::span(of_class), fold_stream(seed, static_cast<std::uint64_t>(fold), static_cast<std::uint32_t>(i)));
      chosen.insert(chosen.end(), of_class.begin() + trained[i], of_class.end());
    }
    std::sort(chosen.begin(), chosen.end());
  }
  return {rows, std::move(validation)};
}

namespace {

/// Whether a method knows nothing of groups.
bool divides_groups(settings::FoldMethod method) {
  return method != settings::FoldMethod::group_k_fold && method != settings::FoldMethod::predefined &&
         method != settings::FoldMethod::time_series;
}

}  // namespace

std::string note_on_groups(const settings::CrossValidationSettings& settings, const data::DataSettings& set) {
  if (!divides_groups(settings.method) || set.split_by != data::SplitBy::automatic) return "";
  if (!data::has_training_groups(set)) return "";
  std::vector<std::int64_t> groups = data::read_training_column(set, "groups");
  std::ranges::sort(groups);
  if (std::ranges::adjacent_find(groups) == groups.end()) return "";
  return fmt::format(
      "{} has groups (train/groups), and cross_validation.method = \"{}\" divides them: examples of one group are in "
      "training and in validation, which makes the figures too good where they are alike. method = \"group_k_fold\", "
      "group = \"groups\" keeps groups together; data.split_by = \"rows\" says that they may be divided",
      set.path, name_of(settings.method, settings::kFoldMethods));
}

Folds folds_of_set(const settings::CrossValidationSettings& settings, const data::DataSettings& set) {
  if (set.split_by == data::SplitBy::groups && divides_groups(settings.method)) {
    throw ConfigError(
        fmt::format("data.split_by = \"groups\": cross_validation.method = \"{}\" divides groups; set it to "
                    "\"group_k_fold\" and group = \"groups\", or data.split_by = \"rows\"",
                    name_of(settings.method, settings::kFoldMethods)));
  }
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> column;
  if (settings.stratified) labels = data::read_training_labels(set);
  if (const std::string name = column_of(settings); !name.empty()) column = data::read_training_column(set, name);
  return make_folds(settings, {.rows = data::count_training_rows(set), .labels = labels, .column = column});
}

}  // namespace unisono::jobs
