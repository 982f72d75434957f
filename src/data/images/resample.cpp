#include "images/resample.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

// The loops over whole vectors are compiled twice where a compiler can choose by the CPU at run time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__)
#define UNISONO_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define UNISONO_VECTOR_CLONES
#endif

namespace unisono::data {
namespace {

constexpr int kBits = 22;  // of a weight after the point, as in Pillow
constexpr std::int32_t kHalf = 1 << (kBits - 1);
constexpr std::int64_t kLanes = 64;  // rows that are scaled together
constexpr std::int64_t kBlock = 16;  // rows and columns that are transposed together

/// The weights of the pixels of which each scaled pixel is the mean, along one axis.
struct Weights {
  std::int64_t most = 0;                  ///< pixels of a mean, at most
  std::vector<std::int64_t> first, many;  ///< [count] the first of them, and how many
  std::vector<std::int32_t> values;       ///< [count, most]
};

/// \param origin, length the pixels that there are \param begin, extent what becomes `count` pixels
Weights weights_of(std::int64_t origin, std::int64_t length, double begin, double extent, std::int64_t count) {
  // Pillow keeps the rectangle as floats.
  const auto from = static_cast<float>(begin), to = static_cast<float>(begin + extent);
  const double scale = double{to - from} / static_cast<double>(count), width = std::max(scale, 1.0);
  Weights weights;
  weights.most = 2 * static_cast<std::int64_t>(std::ceil(width)) + 1;
  weights.values.resize(static_cast<std::size_t>(count * weights.most));
  std::vector<double> exact(static_cast<std::size_t>(weights.most));
  const std::int64_t end = origin + length;
  for (std::int64_t i = 0; i < count; ++i) {
    const double centre = double{from} + (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::clamp<std::int64_t>(static_cast<std::int64_t>(centre - width + 0.5), origin, end - 1);
    const auto last = std::clamp<std::int64_t>(static_cast<std::int64_t>(centre + width + 0.5), first + 1, end);
    double sum = 0;
    for (std::int64_t j = first; j < last; ++j) {
      const double distance = std::abs((static_cast<double>(j) - centre + 0.5) * (1 / width));
      sum += exact[static_cast<std::size_t>(j - first)] = std::max(0.0, 1 - distance);
    }
    weights.first.push_back(first - origin);
    weights.many.push_back(last - first);
    for (std::int64_t j = 0; j < last - first; ++j) {
      const double share = sum == 0 ? 0 : exact[static_cast<std::size_t>(j)] / sum;
      weights.values[static_cast<std::size_t>(i * weights.most + j)] =
          static_cast<std::int32_t>(0.5 + share * (1 << kBits));
    }
  }
  return weights;
}

/// Weights are not negative, and their sum is 1 but for roundings: the mean of bytes is a byte.
std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(sum >> kBits); }

/// out[i] = Σ_k weights[k] · in[k · stride + i], rounded.
UNISONO_VECTOR_CLONES void weighted_sum(const std::uint8_t* in, std::int64_t stride, const std::int32_t* weights,
                                        std::int64_t many, std::int64_t count, std::uint8_t* out) {
  constexpr std::int64_t kAtOnce = 64;
  std::int32_t sums[kAtOnce];
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    const std::int64_t size = std::min(kAtOnce, count - first);
    for (std::int64_t i = 0; i < size; ++i) sums[i] = kHalf;
    for (std::int64_t k = 0; k < many; ++k) {
      const std::uint8_t* const from = in + k * stride + first;
      const std::int32_t weight = weights[k];
      for (std::int64_t i = 0; i < size; ++i) sums[i] += weight * from[i];
    }
    for (std::int64_t i = 0; i < size; ++i) out[first + i] = rounded(sums[i]);
  }
}

/// Scales kLanes rows along their length, all at once. \param in [columns from `begin` on, channels, kLanes]
/// \param out [columns, channels, kLanes]
UNISONO_VECTOR_CLONES void scale_lanes(const std::uint8_t* in, const Weights& columns, std::int64_t begin,
                                       std::int64_t channels, std::uint8_t* out) {
  for (std::size_t x = 0; x < columns.first.size(); ++x) {
    const std::uint8_t* const pixel = in + (columns.first[x] - begin) * channels * kLanes;
    const std::int32_t* const weights = columns.values.data() + x * static_cast<std::size_t>(columns.most);
    for (std::int64_t channel = 0; channel < channels; ++channel, out += kLanes) {
      std::int32_t sums[kLanes];
      for (std::int64_t i = 0; i < kLanes; ++i) sums[i] = kHalf;
      for (std::int64_t k = 0; k < columns.many[x]; ++k) {
        const std::uint8_t* const from = pixel + (k * channels + channel) * kLanes;
        const std::int32_t weight = weights[k];
        for (std::int64_t i = 0; i < kLanes; ++i) sums[i] += weight * from[i];
      }
      for (std::int64_t i = 0; i < kLanes; ++i) out[i] = rounded(sums[i]);
    }
  }
}

/// Byte j of row i of a block of kBlock × kBlock becomes byte i of row j. Rows are `stride` bytes apart.
void transpose_block(const std::uint8_t* in, std::int64_t in_stride, std::uint8_t* out, std::int64_t out_stride) {
#if defined(__SSE2__)
  // Rows i and i + 8 are interleaved, four times.
  __m128i block[kBlock], next[kBlock];
  for (int i = 0; i < kBlock; ++i) block[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * in_stride));
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kBlock / 2; ++i) {
      next[2 * i] = _mm_unpacklo_epi8(block[i], block[i + kBlock / 2]);
      next[2 * i + 1] = _mm_unpackhi_epi8(block[i], block[i + kBlock / 2]);
    }
    std::copy(std::begin(next), std::end(next), std::begin(block));
  }
  for (int i = 0; i < kBlock; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * out_stride), block[i]);
#else
  for (std::int64_t i = 0; i < kBlock; ++i) {
    for (std::int64_t j = 0; j < kBlock; ++j) out[j * out_stride + i] = in[i * in_stride + j];
  }
#endif
}

/// Byte j of row i becomes byte i of row j, of any number of rows and columns.
void transpose(const std::uint8_t* in, std::int64_t in_stride, std::int64_t rows, std::int64_t columns,
               std::uint8_t* out, std::int64_t out_stride) {
  for (std::int64_t i = 0; i < rows; i += kBlock) {
    for (std::int64_t j = 0; j < columns; j += kBlock) {
      const std::uint8_t* const from = in + i * in_stride + j;
      std::uint8_t* const to = out + j * out_stride + i;
      if (i + kBlock <= rows && j + kBlock <= columns) {
        transpose_block(from, in_stride, to, out_stride);
        continue;
      }
      for (std::int64_t y = 0; y < std::min(kBlock, rows - i); ++y) {
        for (std::int64_t x = 0; x < std::min(kBlock, columns - j); ++x)
          to[x * out_stride + y] = from[y * in_stride + x];
      }
    }
  }
}

/// Rows [first, last) of a picture, scaled along their length.
class ScaledRows {
 public:
  /// \param values, lanes, scaled memory for it
  ScaledRows(const Pixels& pixels, const Weights& columns, std::int64_t first, std::int64_t last,
             std::vector<std::uint8_t>& values, std::vector<std::uint8_t>& lanes, std::vector<std::uint8_t>& scaled)
      : count_(static_cast<std::int64_t>(columns.first.size())),
        channels_(pixels.channels),
        first_(first),
        values_(values) {
    const std::int64_t begin = columns.first.front(), end = columns.first.back() + columns.many.back();
    values.resize(static_cast<std::size_t>((last - first) * count_ * channels_));
    lanes.resize(static_cast<std::size_t>((end - begin) * channels_ * kLanes));
    scaled.resize(static_cast<std::size_t>(count_ * channels_ * kLanes));
    for (std::int64_t row = first; row < last; row += kLanes) {
      const std::int64_t rows = std::min(kLanes, last - row), width = pixels.width * channels_;
      transpose(pixels.values + row * width + begin * channels_, width, rows, (end - begin) * channels_, lanes.data(),
                kLanes);
      scale_lanes(lanes.data(), columns, begin, channels_, scaled.data());
      for (std::int64_t channel = 0; channel < channels_; ++channel) {
        transpose(scaled.data() + channel * kLanes, channels_ * kLanes, count_, rows,
                  values.data() + (row - first) * stride() + channel * count_, stride());
      }
    }
  }

  /// [count] of a channel. The next row's is stride() values further.
  const std::uint8_t* row(std::int64_t row, std::int64_t channel) const {
    return values_.data() + (row - first_) * stride() + channel * count_;
  }
  std::int64_t stride() const { return channels_ * count_; }

 private:
  std::int64_t count_, channels_, first_;
  std::vector<std::uint8_t>& values_;  ///< [rows, channels, count]
};

}  // namespace

double reach(double extent, std::int64_t count) { return std::max(1.0, extent / static_cast<double>(count)) + 1; }

void Resampler::resample(const Pixels& pixels, const Box& box, const Planes& planes) {
  const Weights columns = weights_of(pixels.left, pixels.width, box.left, box.width, planes.width);
  const Weights lines = weights_of(pixels.top, pixels.height, box.top, box.height, planes.height);
  const ScaledRows rows(pixels, columns, lines.first.front(), lines.first.back() + lines.many.back(), rows_, lanes_,
                        scaled_);
  for (std::int64_t y = 0; y < planes.height; ++y) {
    const auto at = static_cast<std::size_t>(y);
    for (std::int64_t channel = 0; channel < pixels.channels; ++channel) {
      weighted_sum(rows.row(lines.first[at], channel), rows.stride(), lines.values.data() + y * lines.most,
                   lines.many[at], planes.width, planes.values + channel * planes.plane + y * planes.row);
    }
  }
}

}  // namespace unisono::data
