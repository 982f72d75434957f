#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "describe/survey.hpp"

namespace unisono::data {

/// Accumulates range, mean and deviation, the latter two from sums in double of values shifted by the first one.
class Tally {
 public:
  void add(double value) {
    if (count_ == 0) shift_ = value;
    const double x = value - shift_;
    sum_ += x;
    squares_ += x * x;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    ++count_;
  }
  double count() const { return count_; }
  /// \pre a value was added \param examples for Survey::examples
  Survey survey(std::int64_t examples) const {
    const double mean = sum_ / count_;
    return {low_, high_, shift_ + mean, std::sqrt(std::max(0.0, squares_ / count_ - mean * mean)), examples};
  }

 private:
  double count_ = 0, shift_ = 0, sum_ = 0, squares_ = 0;
  double low_ = std::numeric_limits<double>::max(), high_ = std::numeric_limits<double>::lowest();
};

/// "1 to 5, mean 3.5, deviation 1.1"
std::string survey_text(const Survey& survey);

}  // namespace unisono::data
