#include "cpu/loops_isa/philox.hpp"
#include "cpu/loops_isa/table.hpp"

// The dropout mask of elements that follow one another: four random words for each counter of Philox, several counters
// at once.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kCounters = kMaximumLanes / 4 + 1;  ///< that so many elements need, wherever the first one is

/// words[4 i + w] = word w of philox(key, {first + i, epoch, example}) for i < count.
void draw(const MaskKey& key, std::uint32_t first, Count count, std::uint32_t* words) {
  const Words none{};
  std::uint32_t counters[kWords];
  for (Count i = 0; i < count; i += kWords) {
    for (Count lane = 0; lane < kWords; ++lane) counters[lane] = first + static_cast<std::uint32_t>(i + lane);
    const PhiloxWords random =
        philox(key.key, {load_words(counters), none + key.epoch, none + key.example_low, none + key.example_high});
    const Words low = (random.c0 & 0xFFFFFFFFU) | random.c1 << 32, high = (random.c2 & 0xFFFFFFFFU) | random.c3 << 32;
    for (Count lane = 0; lane < kWords; ++lane) {
      const std::uint64_t four[2] = {low[lane], high[lane]};
      __builtin_memcpy(words + 4 * (i + lane), four, sizeof four);
    }
  }
}

void mask(const MaskKey& key, std::uint64_t first, Count count, float* mask) {
  std::uint32_t words[4 * (kCounters + kWords)];
  const Count before = static_cast<Count>(first % 4);
  draw(key, static_cast<std::uint32_t>(first / 4), (before + count + 3) / 4, words);
#pragma omp simd
  for (Count i = 0; i < count; ++i) mask[i] = (words[before + i] >> 8) < key.threshold ? 0.0F : key.scale;
}

}  // namespace

void add_attention_mask(Loops& loops) { loops.attention.mask = mask; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
