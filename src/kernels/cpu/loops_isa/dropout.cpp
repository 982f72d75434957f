// Philox 4x32-10 (see base/random.hpp) for a block's examples at once: four random words for each, which are those of
// four elements that follow one another in canonical order.
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// 32-bit words in the lower halves of 64-bit lanes, where their products have room. Upper halves may hold anything.
using Words = std::uint64_t __attribute__((vector_size(kLanes * sizeof(float))));
constexpr Count kWords = kLanes / 2;

/// The 64-bit products of the lower halves.
inline Words multiply(Words a, Words b) {
#if defined(__AVX512F__)
  // With a mask of all lanes, for g++ 12 takes the other form's undefined lanes for uninitialised ones.
  return reinterpret_cast<Words>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Words>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Words>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU);
#endif
}

inline Words load_words(const std::uint32_t* from) {
  std::uint32_t __attribute__((vector_size(kWords * sizeof(std::uint32_t)))) values;
  __builtin_memcpy(&values, from, sizeof values);
  return __builtin_convertvector(values, Words);
}

inline void store_words(std::uint32_t* to, Words words) {
  using Halves = std::uint32_t __attribute__((vector_size(kWords * sizeof(std::uint32_t))));
  const Halves values = __builtin_convertvector(words, Halves);
  __builtin_memcpy(to, &values, sizeof values);
}

/// words[i][lane] = word i of philox(key, {position, epoch, example}) for all lanes.
void draw(const DropoutBlock& block, std::uint32_t position, std::uint32_t (*words)[kMaximumLanes]) {
  const Words none{};
  for (Count lane = 0; lane < block.width; lane += kWords) {
    std::uint64_t k0 = block.key & 0xFFFFFFFFU, k1 = block.key >> 32;
    Words c0 = none + position, c1 = none + block.epoch;
    Words c2 = load_words(block.example_low + lane), c3 = load_words(block.example_high + lane);
    for (int round = 0; round < 10; ++round) {
      const Words p0 = multiply(c0, none + 0xD2511F53U), p1 = multiply(c2, none + 0xCD9E8D57U);
      c0 = (p1 >> 32) ^ c1 ^ k0;
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ k1;
      c3 = p0;
      k0 = (k0 + 0x9E3779B9U) & 0xFFFFFFFFU;
      k1 = (k1 + 0xBB67AE85U) & 0xFFFFFFFFU;
    }
    store_words(words[0] + lane, c0);
    store_words(words[1] + lane, c1);
    store_words(words[2] + lane, c2);
    store_words(words[3] + lane, c3);
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
