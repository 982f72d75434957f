#include "dense/feature_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// One number an element of a channel or feature, out of none, one, or as many.
std::vector<float> spread(const std::vector<float>& values, std::size_t count, float otherwise) {
  if (values.size() > 1) return values;
  return std::vector<float>(count, values.empty() ? otherwise : values[0]);
}

}  // namespace

void check_fits(const Normalization& normalization, const GroupSchema& group) {
  const std::size_t given = normalization.mean.size();
  const auto channels = static_cast<std::size_t>(group.features.channels);
  const auto features = static_cast<std::size_t>(group.features.size());
  if (normalization.scale.size() == given && (given <= 1 || given == channels || given == features)) return;
  throw DataError(
      fmt::format("/{}: the model normalises {} channels or features, but an example has {} channels of {} features; "
                  "use data like the training set",
                  group.features_path(), given, channels, features / channels));
}

FeatureWriter::FeatureWriter(const GroupSchema& group, const Normalization& normalization)
    : storage_(group.storage), shape_(group.features), scale_(group.scale), offset_(group.offset) {
  const std::size_t given = normalization.mean.size();
  const auto channels = static_cast<std::size_t>(shape_.channels), features = static_cast<std::size_t>(shape_.size());
  by_feature_ = given > 1 && given != channels;
  mean_ = spread(normalization.mean, by_feature_ ? features : channels, 0);
  factor_ = spread(normalization.scale, by_feature_ ? features : channels, 1);
  values_.resize(features);
  moved_.resize(features);
}

StoredFeatures FeatureWriter::describe(const std::byte* rows, std::uint64_t first, Index count) const {
  return {.storage = storage_,
          .channels = shape_.channels,
          .height = shape_.height,
          .width = shape_.width,
          .scale = scale_,
          .offset = offset_,
          .mean = mean_,
          .factor = factor_,
          .rows = rows,
          .first = first,
          .count = count};
}

void FeatureWriter::write(const std::byte* stored, float* out) const {
  const auto plane = static_cast<std::size_t>(shape_.height * shape_.width);
  const auto how = [&](std::size_t i) { return Normaliser{scale_, offset_, &mean_[i], &factor_[i]}; };
  if (by_feature_ || plane == 1) return normalise(storage_, stored, mean_.size(), how(0), 1, out);
  for (std::size_t channel = 0; channel < mean_.size(); ++channel) {
    normalise(storage_, stored + channel * plane * size_of(storage_), plane, how(channel), 0, out + channel * plane);
  }
}

void FeatureWriter::write_moved(const std::byte* stored, const Movement& movement, float* out) {
  write_changed(stored, {.movement = movement}, Fill::black, out);
}

/// Of a pixel outside, in each channel; the mean over the channel where each feature has a mean of its own.
Outside FeatureWriter::outside(Fill fill) const {
  Outside outside{.fill = fill, .values = std::vector<float>(static_cast<std::size_t>(shape_.channels))};
  if (fill != Fill::mean) return outside;
  const std::size_t means = mean_.size() / outside.values.size();
  for (std::size_t i = 0; i < mean_.size(); ++i) outside.values[i / means] += mean_[i] / static_cast<float>(means);
  return outside;
}

void FeatureWriter::write_changed(const std::byte* stored, const Augmentation& change, Fill fill, float* out) {
  const Outside beyond = outside(fill);
  convert(storage_, stored, values_.size(), scale_, offset_, values_.data());
  move_image(shape_, change.movement, beyond, values_.data(), moved_.data());
  if (change.degrees != 0) {
    values_.swap(moved_);
    turn_image(shape_, change.degrees, beyond, values_.data(), moved_.data());
  }
  if (change.colours != ColourChange{}) {
    const float byte = 255 * scale_;  // colours go from 0 to 1
    for (float& value : moved_) value = (value - offset_) / byte;
    change_colours(shape_, change.colours, moved_.data());
    for (float& value : moved_) value = value * byte + offset_;
  }
  const std::size_t plane = moved_.size() / mean_.size();
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    for (std::size_t j = i * plane; j < (i + 1) * plane; ++j) out[j] = (moved_[j] - mean_[i]) * factor_[i];
  }
  if (!change.erased) return;
  const Patch& patch = *change.erased;
  for (Index channel = 0; channel < shape_.channels; ++channel) {
    for (Index y = patch.top; y < patch.top + patch.height; ++y) {
      std::fill_n(out + (channel * shape_.height + y) * shape_.width + patch.left, patch.width, 0.0F);
    }
  }
}

void convert(Storage storage, const std::byte* stored, std::size_t count, float a, float b, float* values) {
  with_stored(storage, stored, [=](const auto* x) {
    for (std::size_t i = 0; i < count; ++i) values[i] = a * to_float(x[i]) + b;
  });
}

void normalise(Storage storage, const std::byte* stored, std::size_t count, const Normaliser& how, std::size_t step,
               float* values) {
  const float scale = how.scale, offset = how.offset;
  const float *means = how.mean, *factors = how.factor;
  with_stored(storage, stored, [=](const auto* x) {
    if (step == 0) {
      const float mean = *means, factor = *factors;
      for (std::size_t i = 0; i < count; ++i) values[i] = (scale * to_float(x[i]) + offset - mean) * factor;
    } else {
      for (std::size_t i = 0; i < count; ++i) values[i] = (scale * to_float(x[i]) + offset - means[i]) * factors[i];
    }
  });
}

}  // namespace unisono::data
