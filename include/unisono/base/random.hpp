#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace unisono {

/// What random numbers are drawn for. Streams of different purposes are independent.
enum class Purpose : std::uint32_t {
  initial_weights = 1,
  order = 2,
  dropout = 3,
  augmentation = 4,
  digits = 5,
  split = 6,
  test = 7,
  words = 8,
  pauses = 9,
  compression = 10,
  partners = 11,
  search = 12,
  trials = 13,
  generation = 14,
  windows = 15,
  mixing = 16,
  simulation = 17
};

/// Philox 4x32-10: 128 random bits as a function of a 64-bit key and a 128-bit counter.
/// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter);

/// The Philox key of the streams of one seed and purpose.
std::uint64_t stream_key(std::uint64_t seed, Purpose purpose);

/// Random numbers as a function of (seed, purpose, a, b, position) alone: never of the number of ranks or threads.
/// `a` and `b` say what is drawn for, e.g. the epoch and the example; every pair has 2³⁰ values of its own.
/// bits() number i is word i mod 4 of philox(stream_key(seed, purpose), {i / 4, b, low half of a, high half of a}).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint32_t b = 0);

  void skip(std::uint64_t n);            ///< goes on as if bits() had been called n times more
  std::uint32_t bits();                  ///< 32 random bits
  std::uint64_t below(std::uint64_t n);  ///< uniform in [0, n), unbiased; n ≥ 1
  float uniform();                       ///< uniform in [0, 1), a multiple of 2⁻²⁴
  float uniform(float low, float high);  ///< uniform in [low, high)
  float normal();                        ///< standard normal (Box–Muller), in double and rounded once

 private:
  std::uint64_t key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
};

/// Puts values into a random order (Fisher–Yates).
template <typename T>
void shuffle(std::span<T> values, RandomStream random) {
  for (std::size_t n = values.size(); n > 1; --n) std::swap(values[n - 1], values[random.below(n)]);
}

/// A random order of 0 … n−1.
std::vector<std::uint64_t> permutation(std::uint64_t n, RandomStream random);

/// XXH3 (64 bits), for checksums and identities; not cryptographic. An earlier hash as `seed` chains two hashes.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0);

inline constexpr std::uint64_t kHashedChunkBytes = 1 << 20;  ///< part of the format of checkpoints

/// Hashes the next `bytes` of a file, or all that is left of it, in chunks of kHashedChunkBytes. Each chunk's hash is
/// the seed of the next, so the result differs from hash_bytes of the same bytes.
std::uint64_t hash_stream(std::istream& file, std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max());

}  // namespace unisono
