#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// How the features of a data set are stored in memory: as in the file if that uses one of these types, else float32.
enum class Storage { uint8, float16, float32 };
inline constexpr std::size_t size_of(Storage storage) {
  return storage == Storage::uint8 ? 1 : storage == Storage::float16 ? 2 : 4;
}

/// Shift and flip of an image for augmentation: out(c, y, x) = in(c, y + down, (flipped ? W − 1 − x : x) + right), zero
/// outside.
struct Movement {
  std::int32_t down = 0, right = 0;
  bool flipped = false;
};

/// Features of consecutive examples as a data set stores them, and how a model's inputs x follow from them:
///   x[c, h, w] = (scale · stored[c, h, w] + offset − mean[i]) · factor[i]
/// where i is the channel, or the element [c, h, w]. An image is moved before it is normalised.
struct StoredFeatures {
  Storage storage = Storage::float32;
  Index channels = 1, height = 1, width = 1;
  float scale = 1, offset = 0;
  std::vector<float> mean, factor;  ///< [C], or [C, H, W]
  const std::byte* rows = nullptr;  ///< [count, C, H, W], in plain memory
  std::uint64_t first = 0;          ///< the first one's index in the set
  Index count = 0;

  Index size() const { return channels * height * width; }
  std::size_t bytes() const { return static_cast<std::size_t>(count * size()) * size_of(storage); }
  bool operator==(const StoredFeatures&) const = default;
};

/// A copy of such features in a device's memory, from which the device computes a model's inputs.
class KeptFeatures {
 public:
  virtual ~KeptFeatures() = default;
  /// x = the features of these examples. \param examples indices in the set
  /// \param movements one for each of them, or empty \param x activations, in the device's layout
  virtual void load(std::span<const std::uint64_t> examples, std::span<const Movement> movements, MutableView x) = 0;
};

/// Asks a device to keep a copy of features; null where it does not. The original must not change while the device is
/// used.
using KeepFeatures = std::function<KeptFeatures*(const StoredFeatures&)>;

/// The inputs of a model for one batch: values, or examples that its device keeps.
struct Inputs {
  View values = {};              ///< [B, C, H, W] row-major
  KeptFeatures* kept = nullptr;  ///< if not null: has the features of the pass' examples; `values` is not used
  std::span<const Movement> movements = {};
};

}  // namespace unisono
