#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dense/rows.hpp"
#include "order/slice.hpp"

namespace unisono::data {

/// Sums of the features of some rows, in double. Shifted by an example's own values, so that a large mean does not
/// swallow a small deviation.
class FeatureSums {
 public:
  /// \param shift [features]; equal for all sums that are added up
  FeatureSums(const GroupSchema& group, std::vector<float> shift);

  void add(const std::byte* stored);
  /// [2 · features]: Σ (x − shift), then Σ (x − shift)²
  std::span<const double> sums() const { return sums_; }
  void clear();

 private:
  Storage storage_;
  float scale_, offset_;
  std::vector<float> shift_, values_;
  std::vector<double> sums_;
};

/// The statistics are added up from so many pieces of the training set, always in the same order: they do not depend on
/// how many ranks share the work.
std::int64_t statistics_pieces(const GroupSchema& group, std::int64_t examples);

/// Mean and 1/deviation from the sums of all pieces; over the whole set ("global"), a channel's or a feature's values.
/// What never varies gets the factor 1.
/// \param pieces one after another, [pieces · 2 · features]
Normalization make_normalization(NormalizationKind kind, const GroupSchema& group, std::int64_t examples,
                                 const std::vector<float>& shift, std::span<const double> pieces);

}  // namespace unisono::data
