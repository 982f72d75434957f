#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// Σ x², exactly: a number in fixed point, wide enough for every square of a float. So it does not depend on the order
/// of the terms, on threads, or on who holds which of them: however θ is divided, a norm has the same bits.
///   Kulisch, "Computer arithmetic and validity", 2008; Collange et al., "Numerical reproducibility for the parallel
///   reduction on multi- and many-core architectures", Parallel Computing, 2015.
/// About 8 integer operations a number; a sum over ranks is one message of `kWords` integers.
class ExactSquares {
 public:
  static constexpr int kWords = 20;

  void add(View values);
  /// += what another thread or rank has summed.
  void add(const ExactSquares& other);
  /// The sum, as integers of which those of several ranks may be added, in any order, for up to 2³⁰ ranks.
  std::array<std::int64_t, kWords> words() const;
  static ExactSquares of_words(const std::array<std::int64_t, kWords>& words);

  /// The sum, rounded once per word that it has: its relative error is below 2⁻⁵¹. Infinite or no number where a value
  /// was.
  double value() const;

 private:
  static constexpr std::size_t kLanes = 8;  ///< numbers of one exponent need not wait for each other
  /// A square has 48 bits of its bin's 64.
  static constexpr std::size_t kMostAdded = kLanes << 16;

  void empty_bins();
  void carry();

  std::array<std::array<std::uint64_t, 255>, kLanes> bins_{};  ///< Σ mantissa², by exponent
  std::size_t added_ = 0;                                      ///< to the bins
  /// Word i counts 2^(32 i − 298). The last two count values that are infinite, and such that are no numbers.
  std::array<std::int64_t, kWords> words_{};
};

}  // namespace unisono
