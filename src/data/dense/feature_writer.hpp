#pragma once

#include <vector>

#include "dense/augmentation.hpp"
#include "dense/schema.hpp"

namespace unisono::data {

/// \throws DataError where the normalisation was made for features of another shape
void check_fits(const Normalization& normalization, const GroupSchema& group);

/// Turns stored features into what a model sees:
///   y[f] = (scale · stored[f] + offset − mean[f]) · factor[f] = a[f] · stored[f] + b[f]
/// where mean and factor are one number, one a channel or one a feature.
class FeatureWriter {
 public:
  /// \pre the normalisation fits
  FeatureWriter(const GroupSchema& group, const Normalization& normalization);

  /// \param out [C, H, W]
  void write(const std::byte* stored, float* out) const;
  /// Features [C, H, W] of rows of the group, for a device to do the same. \param rows those of [first, first + count)
  StoredFeatures describe(const std::byte* rows, std::uint64_t first, Index count) const;
  /// The image is moved before it is normalised: what comes in from outside has the value 0, as a black pixel has.
  void write_moved(const std::byte* stored, const Movement& movement, float* out);

 private:
  Storage storage_;
  FeatureShape shape_;
  float scale_, offset_;
  bool by_feature_;
  std::vector<float> mean_, factor_;   ///< by channel, or by feature
  std::vector<float> a_, b_;           ///< likewise
  std::vector<float> values_, moved_;  ///< [C, H, W], scratch
};

}  // namespace unisono::data
