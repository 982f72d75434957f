#pragma once

#include <vector>

#include "dense/augmentation.hpp"
#include "dense/schema.hpp"

namespace unisono::data {

/// Checks that a normalisation was made for features of this shape. \throws DataError if not
void check_fits(const Normalization& normalization, const GroupSchema& group);

/// Converts stored features into the features that a model sees:
///   y[f] = (scale · stored[f] + offset − mean[f]) · factor[f] = a[f] · stored[f] + b[f]
/// where mean and factor are one number in all, one per channel, or one per feature.
class FeatureWriter {
 public:
  /// \pre the normalisation fits
  FeatureWriter(const GroupSchema& group, const Normalization& normalization);

  /// \param out [C, H, W]
  void write(const std::byte* stored, float* out) const;
  /// Describes stored features of the group and their conversion, for a device that keeps them. \param rows the stored
  /// rows [first, first + count)
  StoredFeatures describe(const std::byte* rows, std::uint64_t first, Index count) const;
  /// The same with augmentation: the image is moved before it is normalised, so pixels from outside have the value 0,
  /// as black pixels have.
  void write_moved(const std::byte* stored, const Movement& movement, float* out);

 private:
  Storage storage_;
  FeatureShape shape_;
  float scale_, offset_;
  bool by_feature_;
  std::vector<float> mean_, factor_;   ///< by channel, or by feature
  std::vector<float> a_, b_;           ///< likewise
  std::vector<float> values_, moved_;  ///< [C, H, W], workspace
};

}  // namespace unisono::data
