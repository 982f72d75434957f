#pragma once

#include <array>
#include <cstdint>

#include "unisono/base/random.hpp"

namespace unisono::search {

inline constexpr std::size_t kSobolDimensions = 64;

/// One coordinate of a Sobol sequence, with 32 binary digits. Any 2^k points that begin at a multiple of 2^k have one
/// in each of the intervals [i/2^k, (i+1)/2^k).
class SobolDimension {
 public:
  /// \param dimension below kSobolDimensions
  explicit SobolDimension(std::size_t dimension);

  /// Multiplies the digits by a random lower triangular matrix of bits with a diagonal of ones, and adds random digits:
  /// every point becomes uniform in [0, 1), and the points cover it as evenly as before.
  void scramble(RandomStream random);
  /// Point n, in [0, 1).
  double at(std::uint32_t n) const;

 private:
  std::array<std::uint32_t, 32> directions_{};  ///< v_j, the first digit is bit 31
  std::uint32_t shift_ = 0;
};

}  // namespace unisono::search
