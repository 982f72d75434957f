#include "dense/feature_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

/// One number an element of a channel or feature, out of none, one, or as many.
std::vector<float> spread(const std::vector<float>& values, std::size_t count, float otherwise) {
  if (values.size() > 1) return values;
  return std::vector<float>(count, values.empty() ? otherwise : values[0]);
}

std::int32_t draw_offset(std::int64_t most, RandomStream& random) {
  const auto drawn = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * most + 1)));
  return static_cast<std::int32_t>(drawn - most);
}

/// out(x) = in(x + right), or zero.
void move_row(Index width, Index right, const float* in, float* out) {
  const Index first = std::clamp<Index>(-right, 0, width), last = std::clamp<Index>(width - right, first, width);
  std::fill(out, out + first, 0.0F);
  std::copy(in + first + right, in + last + right, out + first);
  std::fill(out + last, out + width, 0.0F);
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
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    a_.push_back(scale_ * factor_[i]);
    b_.push_back((offset_ - mean_[i]) * factor_[i]);
  }
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
  if (by_feature_) return convert(storage_, stored, a_.size(), a_.data(), b_.data(), out);
  const auto plane = static_cast<std::size_t>(shape_.height * shape_.width);
  if (plane == 1) return convert(storage_, stored, a_.size(), a_.data(), b_.data(), out);
  for (std::size_t channel = 0; channel < a_.size(); ++channel) {
    convert(storage_, stored + channel * plane * size_of(storage_), plane, a_[channel], b_[channel],
            out + channel * plane);
  }
}

void FeatureWriter::write_moved(const std::byte* stored, const Movement& movement, float* out) {
  convert(storage_, stored, values_.size(), scale_, offset_, values_.data());
  move_image(shape_, movement, values_.data(), moved_.data());
  const std::size_t plane = moved_.size() / mean_.size();
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    for (std::size_t j = i * plane; j < (i + 1) * plane; ++j) out[j] = (moved_[j] - mean_[i]) * factor_[i];
  }
}

bool has_effect(const AugmentationSettings& settings) {
  return settings.crop_padding > 0 || settings.shift > 0 || settings.horizontal_flip;
}

Movement draw_movement(const AugmentationSettings& settings, std::uint64_t seed, std::int64_t epoch,
                       std::uint64_t example) {
  RandomStream random(seed, Purpose::augmentation, example, static_cast<std::uint32_t>(epoch));
  Movement movement;
  for (const std::int64_t most : {settings.crop_padding, settings.shift}) {
    if (most == 0) continue;
    movement.down += draw_offset(most, random);
    movement.right += draw_offset(most, random);
  }
  if (settings.horizontal_flip) movement.flipped = random.below(2) == 1;
  return movement;
}

void move_image(const FeatureShape& shape, const Movement& movement, const float* in, float* out) {
  for (Index channel = 0; channel < shape.channels; ++channel) {
    const float* plane = in + channel * shape.height * shape.width;
    for (Index y = 0; y < shape.height; ++y, out += shape.width) {
      const Index from = y + movement.down;
      if (from < 0 || from >= shape.height) {
        std::fill(out, out + shape.width, 0.0F);
        continue;
      }
      move_row(shape.width, movement.right, plane + from * shape.width, out);
      if (movement.flipped) std::reverse(out, out + shape.width);
    }
  }
}

void convert(Storage storage, const std::byte* stored, std::size_t count, float a, float b, float* values) {
  with_stored(storage, stored, [=](const auto* x) {
    for (std::size_t i = 0; i < count; ++i) values[i] = a * to_float(x[i]) + b;
  });
}

void convert(Storage storage, const std::byte* stored, std::size_t count, const float* a, const float* b,
             float* values) {
  with_stored(storage, stored, [=](const auto* x) {
    for (std::size_t i = 0; i < count; ++i) values[i] = a[i] * to_float(x[i]) + b[i];
  });
}

}  // namespace unisono::data
