#include "cpu/loops_isa/table.hpp"

// Philox 4x32-10 (see base/random.hpp) for all lanes of a block at once: four random words for each example, which are
// those of four elements that follow one another in canonical order.

namespace unisono::cpu::UNISONO_ISA {
namespace {

struct Words {
  std::uint32_t word[4];
};

inline Words philox(std::uint32_t k0, std::uint32_t k1, Words c) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c.word[0], p1 = std::uint64_t{0xCD9E8D57} * c.word[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

void apply(const DropoutBlock& block, Count first, Count last, const float* x, float* y) {
  const auto key_low = static_cast<std::uint32_t>(block.key), key_high = static_cast<std::uint32_t>(block.key >> 32);
  const Count size = block.channels * block.pixels;
  std::uint32_t words[4][kMaximumLanes];
  for (Count group = first; group < last; ++group) {
    const auto position = static_cast<std::uint32_t>(group);
#pragma omp simd
    for (Count lane = 0; lane < block.width; ++lane) {
      const Words random =
          philox(key_low, key_high, {{position, block.epoch, block.example_low[lane], block.example_high[lane]}});
      for (int i = 0; i < 4; ++i) words[i][lane] = random.word[i];
    }
    for (Count i = 0; i < 4 && 4 * group + i < size; ++i) {
      const Count channel = (4 * group + i) / block.pixels, pixel = (4 * group + i) % block.pixels;
      const Count at = (pixel * block.channels + channel) * block.width;
#pragma omp simd
      for (Count lane = 0; lane < block.width; ++lane) {
        const float kept = block.scale * x[at + lane];
        y[at + lane] = (words[i][lane] >> 8) < block.threshold ? 0.0F : kept;
      }
    }
  }
}

}  // namespace

void add_dropout(Loops& loops) { loops.dropout = {apply}; }

}  // namespace unisono::cpu::UNISONO_ISA
