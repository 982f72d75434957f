#include "unisono/base/random.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <numbers>
#include <numeric>

namespace unisono {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

}  // namespace

// The finaliser of SplitMix64: neighbouring seeds give unrelated keys.
std::uint64_t stream_key(std::uint64_t seed, Purpose purpose) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15 * (static_cast<std::uint32_t>(purpose) + 1ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMultiplier0} * counter[0], p1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t a, std::uint32_t b)
    : key_(stream_key(seed, purpose)),
      counter_{0, b, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32)} {}

void RandomStream::skip(std::uint64_t n) {
  for (; n > 0 && used_ < 4; --n) ++used_;
  counter_[0] += static_cast<std::uint32_t>(n / 4);
  for (n %= 4; n > 0; --n) bits();
}

std::uint32_t RandomStream::bits() {
  if (used_ == 4) {
    block_ = philox(key_, counter_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

std::uint64_t RandomStream::below(std::uint64_t n) {
  // 64 random bits, and again where they fall into the incomplete last multiple of n.
  const std::uint64_t incomplete = (0 - n) % n;
  for (;;) {
    const std::uint64_t high = bits();
    const std::uint64_t value = (high << 32) | bits();
    if (value >= incomplete) return value % n;
  }
}

float RandomStream::uniform() { return static_cast<float>(bits() >> 8) * 0x1p-24F; }

float RandomStream::uniform(float low, float high) { return low + (high - low) * uniform(); }

float RandomStream::normal() {
  const double u = (bits() + 1.0) * 0x1p-32, v = bits() * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

std::vector<std::uint64_t> permutation(std::uint64_t n, RandomStream random) {
  std::vector<std::uint64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  shuffle(std::span(order), random);
  return order;
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::uint64_t hash_stream(std::istream& file, std::uint64_t bytes) {
  std::vector<char> chunk(kHashedChunkBytes);
  std::uint64_t hash = 0;
  while (bytes > 0 && file) {
    const auto count = std::min(bytes, kHashedChunkBytes);
    file.read(chunk.data(), static_cast<std::streamsize>(count));
    if (file.gcount() == 0) break;
    hash = hash_bytes(std::string_view(chunk.data(), static_cast<std::size_t>(file.gcount())), hash);
    bytes -= count;
  }
  return hash;
}

}  // namespace unisono
