#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// How the features of a data set are stored in memory: as in the file if the file uses one of these types, else
/// float32.
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
  std::uint64_t first = 0;          ///< the first example's index in the set
  Index count = 0;

  Index size() const { return channels * height * width; }
  std::size_t bytes() const { return static_cast<std::size_t>(count * size()) * size_of(storage); }
  bool operator==(const StoredFeatures&) const = default;
};

/// A copy of StoredFeatures in a device's memory, from which the device computes a model's inputs.
class KeptFeatures {
 public:
  virtual ~KeptFeatures() = default;
  /// x = the features of some examples. \param examples indices in the set
  /// \param movements one for each example, or empty \param x activations, in the device's layout
  virtual void load(std::span<const std::uint64_t> examples, std::span<const Movement> movements, MutableView x) = 0;
};

/// Asks a device to keep a copy of features; null where it does not. The original must not change while the device is
/// used.
using KeepFeatures = std::function<KeptFeatures*(const StoredFeatures&)>;

/// The inputs of a model for one batch: values, examples that its device keeps, or token numbers.
struct Inputs {
  View values = {};  ///< [B, C, H, W] row-major
  /// Holds the features of the pass' examples, in place of `values`; null: they are in `values`.
  KeptFeatures* kept = nullptr;
  std::span<const Movement> movements = {};
  std::span<const std::int32_t> tokens = {};  ///< [B, T]
};

// Views of sparse data sets and of text. They do not own the memory.

/// Rows of a sparse matrix (CSR): row i holds values[k] at column columns[k], for offsets[i] ≤ k < offsets[i + 1].
struct SparseRows {
  std::span<const std::uint64_t> offsets;  ///< [rows + 1]
  std::span<const std::uint32_t> columns;  ///< ascending within a row, no column twice
  std::span<const float> values;           ///< one for each of `columns`; empty: all are 1
  Index width = 0;                         ///< columns of the matrix

  Index rows() const { return offsets.empty() ? 0 : static_cast<Index>(offsets.size()) - 1; }
};

/// One entry of a sparse matrix: a user's rating of an item, or how often two words occur near each other.
struct SparseEntry {
  std::uint32_t row = 0, column = 0;
  float value = 0;
};

/// Sentences of words; a word is an index in a vocabulary: sentence i is words[sentences[i] … sentences[i + 1]).
struct Text {
  std::span<const std::int32_t> words;
  std::span<const std::uint64_t> sentences;  ///< [number of sentences + 1]
};

}  // namespace unisono
