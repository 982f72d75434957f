#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// Σ x², whose value is the exact sum rounded to kBits bits. So it depends neither on the order of the terms, nor on
/// threads, vector widths, or on who holds which terms: however θ is divided, a norm has the same bits.
///
/// Terms are added in one of two ways. A sum made in doubles is known to within kRelativeError, which nearly always
/// settles the rounded value: where both ends of that interval round to the same number, this is the exact sum's, too.
/// Else (in 1 of 700 cases), and where a term is infinite or no number, the terms are added again, exactly: to a number
/// in fixed point that is wide enough for every square of a float.
///   Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last bit", ACM TOMS 17, 1991;
///   Kulisch, "Computer arithmetic and validity", 2008.
/// An exact addition takes about 8 integer operations a number; a sum over ranks is one message of `kWords` integers.
class ExactSquares {
 public:
  static constexpr int kWords = 20;
  static constexpr int kBits = 40;  ///< of the value: its relative error is at most 2⁻⁴⁰
  /// Of sums made in doubles, which are of squares of floats: at most 4 roundings of 2⁻⁵³ on the way of every square,
  /// and what the value's rounding to a double adds.
  static constexpr double kRelativeError = 0x1p-50;

  /// += Σ x², exactly.
  void add(View values);
  /// += a sum of squares of floats made in doubles.
  void add_sum(double sum);
  /// += what another thread or rank has summed.
  void add(const ExactSquares& other);
  /// The sum, as integers of which those of several ranks may be added, in any order, for up to 2³⁰ ranks.
  std::array<std::int64_t, kWords> words() const { return words_; }
  static ExactSquares of_words(const std::array<std::int64_t, kWords>& words);

  /// The sum, rounded to kBits bits, halves to even. Infinite or no number where a value was.
  /// \pre all terms were added exactly
  double value() const;
  /// The same where terms were added as sums made in doubles. Nothing where these do not settle it.
  std::optional<double> settled_value() const;
  /// The same of a single such sum.
  static std::optional<double> settled_value(double sum);

 private:
  struct Leading;
  Leading leading() const;
  void add_integer(std::uint64_t integer, int position, std::int64_t sign);
  void carry();

  /// Word i counts 2^(32 i − 298). The last two count values that are infinite, and such that are no numbers.
  std::array<std::int64_t, kWords> words_{};
};

}  // namespace unisono
