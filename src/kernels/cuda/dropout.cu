// Dropout with the CPU's masks: element e of example n, in the canonical order, is zeroed where word e mod 4 of
// philox(key, {e div 4, epoch, n mod 2³², n div 2³²}), divided by 2⁸, is below ⌈2²⁴ rate⌉ (see cpu/elementwise.cpp).
#include <cmath>

#include "cuda/grid.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr std::int64_t kWords = 4;  // that one call of Philox gives

/// Philox 4x32-10, as unisono::philox.
__device__ void philox_words(std::uint64_t key, std::uint32_t (&counter)[kWords]) {
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
  std::uint32_t epoch, threshold;
};

/// Each thread computes four neighbouring elements of an example in the canonical order.
template <typename T>
__global__ void drop(std::int64_t groups, std::int64_t channels, std::int64_t pixels, const Mask* mask, float scale,
                     const std::uint64_t* const* examples, const T* x, T* y) {
  const std::int64_t size = channels * pixels, groups_of_example = (size + kWords - 1) / kWords;
  for (std::int64_t i = thread_number(); i < groups; i += threads_of_grid()) {
    const std::int64_t n = i / groups_of_example, group = i % groups_of_example;
    const std::uint64_t example = (*examples)[n];
    std::uint32_t words[kWords] = {static_cast<std::uint32_t>(group), mask->epoch, static_cast<std::uint32_t>(example),
                                   static_cast<std::uint32_t>(example >> 32)};
    philox_words(mask->key, words);
    for (std::int64_t k = 0; k < kWords; ++k) {
      const std::int64_t e = group * kWords + k;
      if (e >= size) break;
      const std::int64_t at = n * size + e % pixels * channels + e / pixels;
      const bool is_kept = words[k] >> 8 >= mask->threshold;
      y[at] = rounded_to<T>(is_kept ? to_float(x[at]) * scale : 0);
    }
  }
}

}  // namespace

void CudaBackend::dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
                          MutableView y) {
  const Mask mask{.key = stream_key(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout),
                  .epoch = key.epoch,
                  .threshold = static_cast<std::uint32_t>(std::ceil(std::ldexp(key.rate, 24)))};
  const Index pixels = extent.height * extent.width;
  const Index groups = static_cast<Index>(examples.size()) * ((extent.size() + kWords - 1) / kWords);
  const auto* const staged = queue().stage(mask);
  const auto* const numbers = queue().upload(examples);
  with_type([&]<typename T>(T) {
    queue().launch(drop<T>, grid_for(groups), groups, extent.channels, pixels, staged, 1.0F / (1.0F - key.rate),
                   numbers, values_of<T>(x), values_of<T>(y));
  });
}

}  // namespace unisono::kernels::cuda
