#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// A sum of squares Σ x², or of other doubles. Its value is the exact sum, rounded to kBits bits. So it does not depend
/// on the order of the terms, on threads, on vector widths, or on which rank holds which terms: however θ is sharded, a
/// norm has the same bits.
///
/// Terms are first added in doubles, with a relative error of at most kRelativeError. If both ends of this error
/// interval round to the same kBits bits, the exact sum has these bits, too. Otherwise (in 1 of 700 cases), and where a
/// term is infinite or NaN, the caller adds the terms again, exactly: to a fixed-point number that is wide enough for
/// every square of a float.
///   Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last bit", ACM TOMS 17, 1991;
///   Kulisch, "Computer arithmetic and validity", 2008.
/// An exact addition takes about 8 integer operations per number; a sum over ranks is one message of `kWords` integers.
class ExactSquares {
 public:
  static constexpr int kWords = 20;
  static constexpr int kBits = 40;  ///< bits of the value: its relative error is at most 2⁻⁴⁰
  /// The relative error, at most, of a sum of squares of floats in doubles: each square passes through at most 4
  /// roundings of 2⁻⁵³, and the value is rounded to a double.
  static constexpr double kRelativeError = 0x1p-50;

  /// Adds Σ x², exactly.
  void add(View values);
  /// Adds a sum of squares of floats that was computed in doubles; or any double, whose bits below 2⁻²⁹⁸ are cut off.
  /// \pre the sum's magnitude is below 2²⁷⁰
  void add_sum(double sum);
  /// Adds the sum of another thread or rank.
  void add(const ExactSquares& other);
  /// The sum as integers. To add the sums of up to 2³⁰ ranks, add their words one by one, in any order.
  std::array<std::int64_t, kWords> words() const { return words_; }
  static ExactSquares of_words(const std::array<std::int64_t, kWords>& words);

  /// The sum, rounded to kBits bits, halves to even. Infinite or NaN where a term was.
  /// \pre all terms were added exactly
  double value() const;
  /// The sum, rounded as by `value`, where terms were added by `add_sum`. Empty where the terms' error leaves the
  /// rounding open.
  std::optional<double> settled_value() const;
  /// A single sum in doubles, rounded as by `value`. Empty where its error leaves the rounding open.
  static std::optional<double> settled_value(double sum);

 private:
  struct Leading;
  ExactSquares negated() const;
  Leading leading() const;
  void add_integer(std::uint64_t integer, int position, std::int64_t sign);
  void carry();

  /// Word i has the weight 2^(32 i − 298). The last two words count infinite terms and NaNs.
  std::array<std::int64_t, kWords> words_{};
};

/// Sums over all ranks that compute a step together, for layers that need a statistic of the whole micro-batch. The
/// values lie in the backend's memory, which may be a device's.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// values[i] ← Σ_r values_r[i]. Collective; every rank ends with the same bits.
  virtual void sum(std::span<double> values) = 0;
};

/// A Reducer over this rank alone.
class LocalReducer final : public Reducer {
 public:
  void sum(std::span<double>) override {}
};

/// How many of `leaves` ≥ 2 leaves of a tree of additions are in its left part: the largest power of two that is
/// smaller, as in comm::SumTree.
constexpr int left_leaves(int leaves) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(leaves)) / 2); }

/// Sums over the ranks that share the work of each layer (tensor parallelism). Each rank has the part of some leaves of
/// a fixed tree of additions (comm::SumTree), so that sums have the same bits on any number of ranks. The values lie in
/// the backend's memory. Collective; every rank ends with the same bits.
class TensorGroup : public Reducer {
 public:
  /// values[i] ← the sum of the tree. \param values the sum of this rank's leaves
  virtual void sum_leaves(MutableView values) = 0;
};

/// Sums over all ranks among which θ is sharded, for norms of vectors that no rank holds as a whole.
class SquaresReducer {
 public:
  virtual ~SquaresReducer() = default;

  /// sums[i] ← Σ_r sums_r[i]. Collective; every rank ends with the same bits.
  virtual void sum(std::span<ExactSquares> sums) = 0;
  /// Σ_r sum_r in doubles, for ranks whose devices do not sum exactly. Collective; every rank ends with the same bits.
  virtual double sum(double sum) = 0;
};

}  // namespace unisono
