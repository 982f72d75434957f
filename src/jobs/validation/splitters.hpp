#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/settings/job_settings.hpp"

// Methods of dividing examples into folds. They are functions of their arguments alone. Counts per fold, and per fold
// and class or group, are those of scikit-learn's splitters; without random numbers, so are the rows.
namespace unisono::jobs {

/// How n examples are divided for a cross-validation. Only the validation examples are held; a fold's list of training
/// examples is made when it is asked for, since n folds of n examples would need n² numbers.
class Folds {
 public:
  /// \param validation of each fold: row numbers, ascending
  Folds(std::int64_t rows, std::vector<std::vector<std::int64_t>> validation)
      : rows_(rows), validation_(std::move(validation)) {}
  /// \param training of each fold, where these are not all others
  Folds(std::int64_t rows, std::vector<std::vector<std::int64_t>> validation,
        std::vector<std::vector<std::int64_t>> training)
      : rows_(rows), validation_(std::move(validation)), training_(std::move(training)) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t size() const { return std::ssize(validation_); }
  const std::vector<std::int64_t>& validation(std::int64_t fold) const {
    return validation_[static_cast<std::size_t>(fold)];
  }
  std::int64_t training_size(std::int64_t fold) const {
    return training_.empty() ? rows_ - std::ssize(validation(fold))
                             : std::ssize(training_[static_cast<std::size_t>(fold)]);
  }
  data::Fold fold(std::int64_t fold) const;

 private:
  std::int64_t rows_;
  std::vector<std::vector<std::int64_t>> validation_;
  std::vector<std::vector<std::int64_t>> training_;  ///< empty: all rows that are not for validation
};

/// What is known of the examples that are divided.
struct FoldInput {
  std::int64_t rows = 0;
  std::span<const std::int32_t> labels = {};  ///< [rows] classes, at least 0; empty: there are none
  std::span<const std::int64_t> column = {};  ///< [rows] groups, times or folds, where the method needs them
};

/// \throws ConfigError saying why these examples cannot be divided in this way, and what to change
Folds make_folds(const settings::CrossValidationSettings& settings, const FoldInput& input);

/// The folds of a set's training examples. \throws ConfigError, also where data.split_by asks for whole groups and the
/// method divides them; DataError
Folds folds_of_set(const settings::CrossValidationSettings& settings, const data::DataSettings& set);

/// A warning where the folds of a set divide groups of examples that belong together; empty: they do not, or
/// data.split_by = "rows" says that this is meant. \throws DataError
std::string note_on_groups(const settings::CrossValidationSettings& settings, const data::DataSettings& set);

/// The column that the method needs for FoldInput::column; empty: none.
std::string column_of(const settings::CrossValidationSettings& settings);

/// Validation examples over training examples, as means over the folds, where the method's folds share both; else 0.
double overlap_of(const settings::CrossValidationSettings& settings, const Folds& folds);

/// Whether every example is validated exactly once, so that the folds' predictions together are those of the whole set.
bool validates_each_once(const settings::CrossValidationSettings& settings, const Folds& folds);

// The single methods.

/// The n examples in order, or in random order, cut into k parts, of which the first n mod k have one example more.
Folds k_fold(std::int64_t rows, std::int64_t folds, const std::uint64_t* seed, std::uint64_t repeat = 0);
/// The same within each class; which fold gets one more of a class goes round from class to class.
Folds stratified_k_fold(std::span<const std::int32_t> labels, std::int64_t folds, const std::uint64_t* seed,
                        std::uint64_t repeat = 0);
Folds leave_one_out(std::int64_t rows, std::int64_t most_fits);
/// All choices of p examples, in lexicographic order.
Folds leave_p_out(std::int64_t rows, std::int64_t p, std::int64_t most_fits);
/// Groups in descending order of their sizes, each to the fold that has the fewest examples so far.
Folds group_k_fold(std::span<const std::int64_t> groups, std::int64_t folds);
/// ⌈fraction · n⌉ examples at random, for each fold anew.
Folds shuffle_split(std::int64_t rows, std::int64_t folds, double fraction, std::uint64_t seed);
/// The same with each class's share of them, by largest remainders.
Folds stratified_shuffle_split(std::span<const std::int32_t> labels, std::int64_t folds, double fraction,
                               std::uint64_t seed);
/// The last k · ⌊n/(k + 1)⌋ examples in time cut into k parts; each is validated after all that come `gap` before it.
/// \param times [rows]; empty: the order of the rows
Folds time_series(std::int64_t rows, std::span<const std::int64_t> times, std::int64_t folds, std::int64_t gap);
/// A fold for each different value, ascending; rows with −1 are only trained on.
Folds predefined(std::span<const std::int64_t> column);

}  // namespace unisono::jobs
