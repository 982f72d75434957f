#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// How numbers of a set are kept in memory: as in the file, where it is one of these, and float32 otherwise.
enum class Storage { uint8, float16, float32 };
inline constexpr std::size_t size_of(Storage storage) {
  return storage == Storage::uint8 ? 1 : storage == Storage::float16 ? 2 : 4;
}

/// How an image is moved: out(c, y, x) = in(c, y + down, (flipped ? W − 1 − x : x) + right), zero outside.
struct Movement {
  std::int32_t down = 0, right = 0;
  bool flipped = false;
};

/// Features of consecutive examples as a set keeps them, and what a model sees of them:
///   x[c, h, w] = (scale · stored[c, h, w] + offset − mean[i]) · factor[i]
/// where i counts channels or elements. An image is moved before it is normalised.
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

/// A copy of such features on a device, which makes a model's inputs of them itself.
class KeptFeatures {
 public:
  virtual ~KeptFeatures() = default;
  /// x = the features of these examples. \param examples indices in the set
  /// \param movements of each of them, or empty \param x activations, in the device's layout
  virtual void load(std::span<const std::uint64_t> examples, std::span<const Movement> movements, MutableView x) = 0;
};

/// Asks a device to keep features: null where it does not. The original stays as it is while the device is used.
using KeepFeatures = std::function<KeptFeatures*(const StoredFeatures&)>;

/// What a model is given of a batch: values, or examples that its device keeps.
struct Inputs {
  View values = {};              ///< [B, C, H, W] row-major
  KeptFeatures* kept = nullptr;  ///< not null: the examples of the pass, in place of values
  std::span<const Movement> movements = {};
};

}  // namespace unisono
