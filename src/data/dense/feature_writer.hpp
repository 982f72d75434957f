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
///   y[f] = (scale · stored[f] + offset − mean[f]) · factor[f]
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
  std::vector<float> values_, moved_;  ///< [C, H, W], workspace
};

/// Converts a finite binary16 number to float, exactly. The exponent's bias is 15, a float's is 127. Denormal ones
/// are m 2⁻²⁴: with the exponent of 2⁻¹⁴ they become 2⁻¹⁴ + m 2⁻²⁴, which is no denormal float, as the conversion of
/// their bits would be (FlushDenormals).
inline float to_float(hdf5::Half half) {
  const std::uint32_t magnitude = (half.bits & 0x7FFFU) << 13, sign = (half.bits & 0x8000U) << 16;
  const bool is_denormal = (half.bits & 0x7C00U) == 0;
  const std::uint32_t bias = is_denormal ? 113U << 23 : 112U << 23;
  const float value = std::bit_cast<float>(magnitude + bias) - (is_denormal ? 0x1p-14F : 0.0F);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
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

/// Values that are normalised: (scale · stored + offset − mean) · factor.
struct Normaliser {
  float scale, offset;
  const float *mean, *factor;  ///< for each value, or for all
};
/// values[i] = (scale · stored[i] + offset − mean[i]) · factor[i]. The mean is subtracted first: of numbers that are
/// large beside their deviation, most digits cancel. \param step 1: mean and factor are those of each value; 0: of all
void normalise(Storage storage, const std::byte* stored, std::size_t count, const Normaliser& how, std::size_t step,
               float* values);

}  // namespace unisono::data
