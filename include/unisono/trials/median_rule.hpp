#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "unisono/records/trial_run.hpp"

namespace unisono::trials {

/// Ends trainings early that are worse than the median of the others.
///   A training stops after an epoch if the best loss that it has reached is above the median, over the other trainings
///   that have come as far, of the means of their losses up to that epoch.
///   Golovin et al., "Google Vizier: a service for black-box optimization", KDD 2017, section 3.2.2.
class MedianRule {
 public:
  /// Notes a loss, and judges by what is known so far. \return whether the training should go on
  bool goes_on(const records::TrialRun& training, std::int64_t epochs, double loss);

 private:
  /// Before so many others have come as far, none is stopped.
  static constexpr std::ptrdiff_t kLeastOthers = 4;

  struct Curve {
    records::TrialRun training;
    std::map<std::int64_t, double> losses;  ///< by the epochs made
  };
  Curve& curve_of(const records::TrialRun& training);
  std::vector<double> means_of_others(const Curve& own, std::int64_t epochs) const;

  std::vector<Curve> curves_;
};

}  // namespace unisono::trials
