// What kernels/encoders.hpp describes, for vectors of any length: whole registers first, then the rest.
#include "cpu/loops_isa/bytes.hpp"
#include "cpu/loops_isa/philox.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kBits = 64;  ///< of a bitmap's word
constexpr Integers kSign = Integers{} + static_cast<std::int32_t>(0x80000000U);

inline Integers bits_of(Vector v) { return reinterpret_cast<Integers>(v); }
inline Integers magnitude_of(Vector v) { return bits_of(v) & ~kSign; }
inline Vector as_floats(Integers bits) { return reinterpret_cast<Vector>(bits); }

/// Bit i is set where lane i of the mask is.
inline std::uint64_t bitmap_of(Integers mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
#elif defined(__AVX2__)
  return static_cast<std::uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
#else
  std::uint64_t bits = 0;
  for (Count i = 0; i < kLanes; ++i) bits |= (mask[i] != 0 ? std::uint64_t{1} : 0) << i;
  return bits;
#endif
}

/// Lane i of the mask is set where bit i is.
inline Integers mask_of(std::uint64_t bits) {
#if defined(__AVX512F__)
  return reinterpret_cast<Integers>(_mm512_movm_epi32(static_cast<__mmask16>(bits)));
#else
  Integers lane_bits;
  for (Count i = 0; i < kLanes; ++i) lane_bits[i] = 1 << i;
  return ((Integers{} + static_cast<std::int32_t>(bits)) & lane_bits) != 0;
#endif
}

/// Calls work(i, lanes) for each register's worth of n values, the last of which may be shorter.
template <typename Work>
__attribute__((always_inline)) inline void for_registers(Count n, const Work& work) {
  Count i = 0;
  for (; i + kLanes <= n; i += kLanes) work(i, kLanes);
  if (i < n) work(i, n - i);
}

__attribute__((always_inline)) inline Vector load_lanes(const float* from, Count lanes) {
  return lanes == kLanes ? load(from) : load_first(from, lanes);
}
__attribute__((always_inline)) inline void store_lanes(float* to, Vector value, Count lanes) {
  if (lanes == kLanes) return store(to, value);
  store_first(to, value, lanes);
}

/// As for_registers, for values and the words of bitmaps: calls work(i, lanes, word, shift).
template <typename Work>
__attribute__((always_inline)) inline void for_bitmap(Count n, const Work& work) {
  for_registers(n, [&](Count i, Count lanes) { work(i, lanes, i / kBits, static_cast<int>(i % kBits)); });
}

// bfloat16
// ----------------------------------------------------------------------------------------------------------------

using HalfWords = std::uint16_t __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
using Unsigned = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));

void encode_bf16(float* v, Count n, std::uint16_t* halves) {
  for_registers(n, [&](Count i, Count lanes) {
    const Vector value = load_lanes(v + i, lanes);
    const auto bits = reinterpret_cast<Unsigned>(value);
    const Unsigned rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    store_lanes(v + i, value - reinterpret_cast<Vector>(rounded << 16), lanes);
    const HalfWords stored = __builtin_convertvector(rounded, HalfWords);
    __builtin_memcpy(halves + i, &stored, static_cast<std::size_t>(lanes) * sizeof(std::uint16_t));
  });
}

void add_bf16(const std::uint16_t* halves, Count n, float* sum) {
  for_registers(n, [&](Count i, Count lanes) {
    HalfWords stored{};
    __builtin_memcpy(&stored, halves + i, static_cast<std::size_t>(lanes) * sizeof(std::uint16_t));
    const Unsigned bits = __builtin_convertvector(stored, Unsigned) << 16;
    store_lanes(sum + i, load_lanes(sum + i, lanes) + reinterpret_cast<Vector>(bits), lanes);
  });
}

// 8 bits
// ----------------------------------------------------------------------------------------------------------------

/// By the bits, so that a NaN is larger than any number.
float largest(const float* v, Count n) {
  Integers most{};
  for_registers(n, [&](Count i, Count lanes) {
    const Integers magnitude = magnitude_of(load_lanes(v + i, lanes));
    most = magnitude > most ? magnitude : most;
  });
  std::int32_t all = 0;
  for (Count lane = 0; lane < kLanes; ++lane) all = most[lane] > all ? most[lane] : all;
  float value;
  __builtin_memcpy(&value, &all, sizeof value);
  return value;
}

constexpr Count kBlock = 256, kCounters = kBlock / 8;

/// words[w][c] = word w of philox(key, counter + c).
void draw(const EightBitBlock& block, std::uint32_t (*words)[kCounters]) {
  const Words none{};
  Words steps;
  for (Count i = 0; i < kWords; ++i) steps[i] = static_cast<std::uint64_t>(i);
  for (Count c = 0; c < kCounters; c += kWords) {
    const PhiloxWords random =
        philox(block.key, {none + block.counter[0] + static_cast<std::uint64_t>(c) + steps, none + block.counter[1],
                           none + block.counter[2], none + block.counter[3]});
    store_words(words[0] + c, random.c0);
    store_words(words[1] + c, random.c1);
    store_words(words[2] + c, random.c2);
    store_words(words[3] + c, random.c3);
  }
}

using Unsigned = std::uint32_t __attribute__((vector_size(sizeof(Integers))));

void encode_eight_bit(const EightBitBlock& block, float* v, Count n, std::int8_t* codes) {
  std::uint32_t words[4][kCounters];
  draw(block, words);
  const Integers most = Integers{} + 127;
  for_registers(n, [&](Count i, Count lanes) {
    const Count half = i / kCounters;  // of the counters' random words
    Integers random = load(reinterpret_cast<const std::int32_t*>(words[half / 2] + i % kCounters));
    random = (half % 2 == 0 ? random : random >> 16) & 0xFFFF;
    const Vector value = load_lanes(v + i, lanes);
    // Above 0 before it is cut to an integer, so that cutting is rounding down.
    const Vector shifted = value * block.inverse + 128.0F + __builtin_convertvector(random, Vector) * 0x1p-16F;
    // Without a sign, since what is not finite becomes the least integer.
    auto code = Integers(Unsigned(__builtin_convertvector(shifted, Integers)) - 128U);
    code = code > most ? most : code < -most ? -most : code;
    store_lanes(v + i, value - __builtin_convertvector(code, Vector) * block.scale, lanes);
    store_bytes(codes + i, code, lanes);
  });
}

void add_eight_bit(float scale, const std::int8_t* codes, Count n, float* sum) {
  for_registers(n, [&](Count i, Count lanes) {
    const Vector value = __builtin_convertvector(load_bytes(codes + i, lanes), Vector) * scale;
    store_lanes(sum + i, load_lanes(sum + i, lanes) + value, lanes);
  });
}

// 1 bit
// ----------------------------------------------------------------------------------------------------------------

void clear_bitmap(std::uint64_t* words, Count n) {
  for (Count i = 0; i < (n + kBits - 1) / kBits; ++i) words[i] = 0;
}

void encode_one_bit(float* v, Count n, std::uint64_t* negative, float* means) {
  clear_bitmap(negative, n);
  Vector below{}, all{};
  Count negatives = 0;
  for_bitmap(n, [&](Count i, Count lanes, Count word, int shift) {
    const Vector value = load_lanes(v + i, lanes);
    const Integers is_negative = value < Vector{};
    const std::uint64_t bits = bitmap_of(is_negative);
    negative[word] |= bits << shift;
    negatives += __builtin_popcountll(bits);
    below += keep(is_negative, value);
    all += keep(~is_negative, value);
  });
  const Count others = n - negatives;
  means[0] = others > 0 ? static_cast<float>(total(all) / static_cast<double>(others)) : 0.0F;
  means[1] = negatives > 0 ? static_cast<float>(total(below) / static_cast<double>(negatives)) : 0.0F;
  for_registers(n, [&](Count i, Count lanes) {
    const Vector value = load_lanes(v + i, lanes);
    store_lanes(v + i, value - (value < Vector{} ? broadcast(means[1]) : broadcast(means[0])), lanes);
  });
}

void add_one_bit(const float* means, const std::uint64_t* negative, Count n, float* sum) {
  const Vector positive = broadcast(means[0]), below = broadcast(means[1]);
  for_bitmap(n, [&](Count i, Count lanes, Count word, int shift) {
    const Integers is_negative = mask_of(negative[word] >> shift);
    store_lanes(sum + i, load_lanes(sum + i, lanes) + (is_negative ? below : positive), lanes);
  });
}

// Some of the values
// ----------------------------------------------------------------------------------------------------------------

Count mark(float magnitude, const float* v, Count n, std::uint64_t* present) {
  clear_bitmap(present, n);
  const Integers least = bits_of(broadcast(magnitude));
  Count count = 0;
  for_bitmap(n, [&](Count i, Count lanes, Count word, int shift) {
    std::uint64_t bits = bitmap_of(magnitude_of(load_lanes(v + i, lanes)) >= least);
    bits &= (std::uint64_t{1} << lanes) - 1;  // behind the last value are zeros, which may count as present
    present[word] |= bits << shift;
    count += __builtin_popcountll(bits);
  });
  return count;
}

Count mark_signed(float tau, float* v, Count n, std::uint64_t* present, std::uint64_t* negative) {
  clear_bitmap(present, n);
  clear_bitmap(negative, n);
  const Integers least = bits_of(broadcast(tau));
  Count count = 0;
  for_bitmap(n, [&](Count i, Count lanes, Count word, int shift) {
    const Vector value = load_lanes(v + i, lanes);
    const Integers is_present = magnitude_of(value) >= least;
    const std::uint64_t bits = bitmap_of(is_present);
    if (bits == 0) return;
    present[word] |= bits << shift;
    negative[word] |= (bitmap_of((bits_of(value) & kSign) != 0) & bits) << shift;
    count += __builtin_popcountll(bits);
    const Vector sent = as_floats(least | (bits_of(value) & kSign));
    store_lanes(v + i, is_present ? value - sent : value, lanes);
  });
  return count;
}

void add_signed(float tau, const std::uint64_t* present, const std::uint64_t* negative, Count n, float* sum) {
  const Integers magnitude = bits_of(broadcast(tau));
  for_bitmap(n, [&](Count i, Count lanes, Count word, int shift) {
    const Integers is_present = mask_of(present[word] >> shift), is_negative = mask_of(negative[word] >> shift);
    const Vector old = load_lanes(sum + i, lanes);
    store_lanes(sum + i, is_present ? old + as_floats(magnitude | (is_negative & kSign)) : old, lanes);
  });
}

}  // namespace

void add_encoders(Loops& loops) {
  loops.encoders = {encode_bf16,    add_bf16,    largest, encode_eight_bit, add_eight_bit,
                    encode_one_bit, add_one_bit, mark,    mark_signed,      add_signed};
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
