#pragma once

#include <string>

#include "unisono/settings/config.hpp"

namespace unisono::jobs {

/// By which metric of the validation examples trials are compared.
class MetricThatCounts {
 public:
  /// \param key "validation.accuracy", or "auto" \throws ConfigError for another split
  explicit MetricThatCounts(const std::string& key);

  /// Finds out what "auto" is. Called before the functions below. \param has_folds whether folds of the training
  /// examples validate \throws ConfigError where the model has no such metric, or nothing validates
  void require(const settings::Config& config, const data::DatasetInfo& data, bool has_folds);

  const std::string& name() const { return name_; }  ///< "accuracy"
  std::string text() const { return "validation " + name_; }
  bool larger_is_better() const { return larger_is_better_; }

 private:
  std::string name_;
  bool larger_is_better_ = false;
};

}  // namespace unisono::jobs
