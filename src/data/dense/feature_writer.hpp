#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "augment/augmentation.hpp"
#include "dense/schema.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/tensor/features.hpp"

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
  /// The same with any augmentation: the image is moved, turned, given other colours, normalised, and a part of it is
  /// erased. \pre its storage is bytes where colours change
  void write_changed(const std::byte* stored, const Augmentation& change, Fill fill, float* out);

 private:
  Outside outside(Fill fill) const;

  Storage storage_;
  FeatureShape shape_;
  float scale_, offset_;
  bool by_feature_;
  std::vector<float> mean_, factor_;   ///< by channel, or by feature
  std::vector<float> a_, b_;           ///< likewise
  std::vector<float> values_, moved_;  ///< [C, H, W], workspace
};

/// Converts a finite binary16 number to float, exactly. The exponent's bias is 15, a float's is 127: hence the factor
/// 2¹¹².
inline float to_float(hdf5::Half half) {
  const std::uint32_t magnitude = (half.bits & 0x7FFFU) << 13, sign = (half.bits & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F) | sign);
}
/// Likewise of any binary16 number: infinite ones and NaN stay infinite and NaN.
inline float to_any_float(hdf5::Half half) {
  const bool is_finite = (half.bits & 0x7C00U) != 0x7C00U;
  return is_finite ? to_float(half)
                   : std::bit_cast<float>(std::uint32_t{half.bits & 0x3FFU} << 13 | 0x7F800000U |
                                          std::uint32_t{half.bits & 0x8000U} << 16);
}
inline float to_float(std::uint8_t value) { return static_cast<float>(value); }
inline float to_float(float value) { return value; }

/// Calls act(pointer to the stored values), with the pointer's type according to `storage`.
template <typename Act>
void with_stored(Storage storage, const std::byte* stored, Act act) {
  switch (storage) {
    case Storage::uint8:
      return act(reinterpret_cast<const std::uint8_t*>(stored));
    case Storage::float16:
      return act(reinterpret_cast<const hdf5::Half*>(stored));
    case Storage::float32:
      return act(reinterpret_cast<const float*>(stored));
  }
}

/// values[i] = a · stored[i] + b
void convert(Storage storage, const std::byte* stored, std::size_t count, float a, float b, float* values);

/// values[i] = a[i] · stored[i] + b[i]
void convert(Storage storage, const std::byte* stored, std::size_t count, const float* a, const float* b,
             float* values);

}  // namespace unisono::data
