#include "order/keyed_permutation.hpp"

#include <cassert>
#include <cmath>

namespace unisono::data {
namespace {

/// ⌈√n⌉, at least 1.
std::uint64_t ceil_root(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root > 0 && (root - 1) * (root - 1) >= n) --root;
  while (root * root < n) ++root;
  return root > 0 ? root : 1;
}

/// Hashes both to 32 bits: the finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
std::uint64_t round_bits(std::uint64_t value, std::uint64_t key) {
  std::uint64_t z = (value ^ key) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z >> 32;
}

}  // namespace

KeyedPermutation::KeyedPermutation(std::uint64_t n, RandomStream random) : n_(n), side_(ceil_root(n)) {
  for (std::uint64_t& key : keys_) {
    const std::uint64_t high = random.bits();
    key = (high << 32) | random.bits();
  }
}

std::uint64_t KeyedPermutation::operator()(std::uint64_t place) const {
  assert(place < n_);
  do {
    std::uint64_t left = place / side_, right = place % side_;
    for (const std::uint64_t key : keys_) {
      std::uint64_t sum = left + ((round_bits(right, key) * side_) >> 32);  // F < side: no division
      if (sum >= side_) sum -= side_;
      left = right;
      right = sum;
    }
    place = left * side_ + right;
  } while (place >= n_);
  return place;
}

}  // namespace unisono::data
