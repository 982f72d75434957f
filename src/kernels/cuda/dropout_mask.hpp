#pragma once

// Dropout with the CPU's masks: element e of example n, in the canonical order of all ranks, is zeroed where word e mod
// 4 of philox(key, {e div 4, epoch, n mod 2³², n div 2³²}), divided by 2⁸, is below ⌈2²⁴ rate⌉ (see
// cpu/elementwise.cpp).
#include <cmath>

#include "cuda/device_code.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels::cuda {

constexpr std::int64_t kWords = 4;  ///< that one call of Philox gives

/// Philox 4x32-10, as unisono::philox.
__device__ inline void philox_words(std::uint64_t key, std::uint32_t (&counter)[kWords]) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0], p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    const std::uint32_t c1 = counter[1], c3 = counter[3];
    counter[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    counter[1] = static_cast<std::uint32_t>(p1);
    counter[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    counter[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

/// The values that change from epoch to epoch.
struct Mask {
  std::uint64_t key;
  std::int64_t first;  ///< the number of the first element
  std::uint32_t epoch, threshold;

  /// The words for elements 4 · group … 4 · group + 3 of an example.
  __device__ void words_of(std::uint64_t example, std::int64_t group, std::uint32_t (&words)[kWords]) const {
    words[0] = static_cast<std::uint32_t>(group);
    words[1] = epoch;
    words[2] = static_cast<std::uint32_t>(example);
    words[3] = static_cast<std::uint32_t>(example >> 32);
    philox_words(key, words);
  }
  __device__ bool keeps(std::uint32_t word) const { return word >> 8 >= threshold; }
};

inline Mask mask_of(const DropoutKey& key) {
  return {.key = stream_key(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout),
          .first = key.first,
          .epoch = key.epoch,
          .threshold = static_cast<std::uint32_t>(std::ceil(std::ldexp(key.rate, 24)))};
}

/// What the elements that are kept are multiplied with.
inline float scale_of_kept(const DropoutKey& key) { return 1.0F / (1.0F - key.rate); }

struct ScaledMask {
  Mask mask;
  float scale;  ///< of what is kept
};

/// What the elements of an example are multiplied with: 0 or the mask's scale. Asked for in ascending order, four of
/// them take one call of Philox.
class MaskFactors {
 public:
  /// \param mask null: all factors are 1
  __device__ MaskFactors(const ScaledMask* mask, std::uint64_t example) : mask_(mask), example_(example) {}

  __device__ float of(std::int64_t own_element) {
    if (mask_ == nullptr) return 1;
    const std::int64_t element = mask_->mask.first + own_element;
    if (element / kWords != group_) {
      group_ = element / kWords;
      mask_->mask.words_of(example_, group_, words_);
    }
    const bool odd = element % 2 != 0;
    const std::uint32_t word = element % kWords < 2 ? (odd ? words_[1] : words_[0]) : (odd ? words_[3] : words_[2]);
    return mask_->mask.keeps(word) ? mask_->scale : 0;
  }

 private:
  const ScaledMask* mask_;
  std::uint64_t example_;
  std::int64_t group_ = -1;
  std::uint32_t words_[kWords] = {};
};

}  // namespace unisono::kernels::cuda
