// Philox 4x32-10 (see base/random.hpp) for a block's examples at once: four random words for each, which are those of
// four elements that follow one another in canonical order.
#include "cpu/loops_isa/philox.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// words[i][lane] = word i of philox(key, {position, epoch, example}) for all lanes.
void draw(const DropoutBlock& block, std::uint32_t position, std::uint32_t (*words)[kMaximumLanes]) {
  const Words none{};
  for (Count lane = 0; lane < block.width; lane += kWords) {
    const PhiloxWords random =
        philox(block.key, {none + position, none + block.epoch, load_words(block.example_low + lane),
                           load_words(block.example_high + lane)});
    store_words(words[0] + lane, random.c0);
    store_words(words[1] + lane, random.c1);
    store_words(words[2] + lane, random.c2);
    store_words(words[3] + lane, random.c3);
  }
}

void apply(const DropoutBlock& block, Count first, Count last, const float* x, float* y) {
  std::uint32_t words[4][kMaximumLanes];
  for (Count channel = 0; channel < block.channels; ++channel) {
    const Count start = channel * block.pixels, end = start + last;
    for (Count e = start + first; e < end; ++e) {
      if (e == start + first || e % 4 == 0) draw(block, static_cast<std::uint32_t>(e / 4), words);
      const std::uint32_t* random = words[e % 4];
      const Count at = ((e - start) * block.channels + channel) * block.width;
#pragma omp simd
      for (Count lane = 0; lane < block.width; ++lane) {
        const float kept = block.scale * x[at + lane];
        y[at + lane] = (random[lane] >> 8) < block.threshold ? 0.0F : kept;
      }
    }
  }
}

}  // namespace

void add_dropout(Loops& loops) { loops.dropout = {apply}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
