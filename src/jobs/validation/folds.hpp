#pragma once

#include <cstdint>
#include <vector>

#include "unisono/data/dataset.hpp"

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

}  // namespace unisono::jobs
