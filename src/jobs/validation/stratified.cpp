// Splitters that keep the shares of the classes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"
#include "validation/drawing.hpp"
#include "validation/splitters.hpp"

namespace unisono::jobs {
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

std::int64_t held_out_rows(std::int64_t rows, double fraction) {
  const auto held_out = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(rows)));
  if (held_out < rows) return held_out;
  throw ConfigError(
      fmt::format("[cross_validation] held_out_fraction = {} of {} training examples leaves none to train "
                  "on; use a smaller one",
                  fraction, rows));
}

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

}  // namespace unisono::jobs
