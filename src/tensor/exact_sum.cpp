#include "unisono/tensor/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace unisono {
namespace {

constexpr int kDigits = ExactSquares::kWords - 2, kInfinite = kDigits, kNoNumber = kDigits + 1;
constexpr int kLeastExponent = -298;  // of (2⁻¹⁴⁹)², the square of the smallest float
constexpr std::uint64_t kLowWord = 0xFFFFFFFFU;
constexpr int kMantissa = std::numeric_limits<double>::digits;

/// Sums of squared mantissas, by the floats' exponents. Numbers of one exponent go to several bins in turn, so that
/// additions need not wait for each other.
class Bins {
 public:
  static constexpr std::size_t kExponents = 256;
  static constexpr std::size_t kMostAdded = std::size_t{8} << 16;  ///< a square has 48 bits of its bin's 64

  void add(View values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFU;
      const std::uint32_t exponent = bits >> 23, fraction = bits & 0x7FFFFFU;
      const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | 0x800000U;
      // The last exponent stands for infinities and NaNs: these are only counted.
      sums_[i % kLanes * kExponents + exponent] += exponent == 255 ? (fraction == 0 ? 1 : kOne) : mantissa * mantissa;
    }
  }

  /// Calls visit(sum, exponent) for each bin, and empties all. \return how many numbers were infinite, and how many NaN
  template <typename Visit>
  std::array<std::int64_t, 2> empty(Visit visit) {
    std::array<std::int64_t, 2> special{};
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const std::uint64_t sum = sums_[i];
      if (sum == 0) continue;
      sums_[i] = 0;
      const auto exponent = static_cast<int>(i % kExponents);
      if (exponent < 255) {
        visit(sum, exponent);
      } else {
        special[0] += static_cast<std::int64_t>(sum % kOne);
        special[1] += static_cast<std::int64_t>(sum / kOne);
      }
    }
    return special;
  }

 private:
  static constexpr std::size_t kLanes = 8;
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 32;
  std::vector<std::uint64_t> sums_ = std::vector<std::uint64_t>(kLanes * kExponents);
};

/// To the nearest number of kBits bits, halves to even. \pre it is finite
double rounded(double value) {
  constexpr int kDropped = kMantissa - ExactSquares::kBits;
  auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t odd = bits >> kDropped & 1U;
  bits += (std::uint64_t{1} << (kDropped - 1)) - 1 + odd;
  return std::bit_cast<double>(bits >> kDropped << kDropped);
}

}  // namespace

void ExactSquares::add(View values) {
  Bins bins;
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), Bins::kMostAdded);
    bins.add(values.first(count));
    values = values.subspan(count);
    // A number is mantissa · 2^(max(1, exponent) − 150).
    const auto special = bins.empty(
        [&](std::uint64_t sum, int exponent) { add_integer(sum, exponent == 0 ? 0 : 2 * (exponent - 1), 1); });
    words_[kInfinite] += special[0];
    words_[kNoNumber] += special[1];
    carry();
  }
}

void ExactSquares::add_sum(double sum) {
  if (!std::isfinite(sum)) {
    ++words_[std::isnan(sum) ? kNoNumber : kInfinite];
    return;
  }
  int exponent = 0;
  const double fraction = std::frexp(sum, &exponent);  // in [½, 1)
  if (fraction == 0) return;
  auto integer = static_cast<std::uint64_t>(std::ldexp(std::abs(fraction), kMantissa));
  int position = exponent - kMantissa - kLeastExponent;
  if (position < 0) {  // bits that are zero: no square has any there
    integer >>= -position;
    position = 0;
  }
  add_integer(integer, position, fraction < 0 ? -1 : 1);
  carry();
}

/// += sign · integer · 2^(position − 298)
void ExactSquares::add_integer(std::uint64_t integer, int position, std::int64_t sign) {
  const int shift = position % 32;
  const std::uint64_t low = (integer & kLowWord) << shift, high = (integer >> 32) << shift;
  std::int64_t* const word = words_.data() + position / 32;
  word[0] += sign * static_cast<std::int64_t>(low & kLowWord);
  word[1] += sign * static_cast<std::int64_t>((low >> 32) + (high & kLowWord));
  word[2] += sign * static_cast<std::int64_t>(high >> 32);
}

void ExactSquares::carry() {
  for (std::size_t i = 0; i + 1 < kDigits; ++i) {
    words_[i + 1] += words_[i] >> 32;
    words_[i] &= static_cast<std::int64_t>(kLowWord);
  }
}

void ExactSquares::add(const ExactSquares& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] += other.words_[i];
  carry();
}

ExactSquares ExactSquares::negated() const {
  ExactSquares negated;
  for (std::size_t i = 0; i < kDigits; ++i) negated.words_[i] = -words_[i];
  negated.carry();
  return negated;
}

ExactSquares ExactSquares::of_words(const std::array<std::int64_t, kWords>& words) {
  ExactSquares sum;
  sum.words_ = words;
  sum.carry();
  return sum;
}

/// The sum's first bits, as many as a double has: mantissa · 2^exponent, where nothing is cut off.
struct ExactSquares::Leading {
  double mantissa = 0;
  int exponent = 0;
  bool more = false;  ///< bits were cut off
};

ExactSquares::Leading ExactSquares::leading() const {
  int top = kDigits - 1;
  while (top > 2 && words_[static_cast<std::size_t>(top)] == 0) --top;
  __extension__ using Wide = unsigned __int128;
  Wide bits = 0;
  for (int i = top; i > top - 3; --i) {
    bits = (bits << 32) + static_cast<std::uint64_t>(words_[static_cast<std::size_t>(i)]);
  }
  Leading leading{.exponent = 32 * (top - 2) + kLeastExponent};
  leading.more = std::any_of(words_.begin(), words_.begin() + (top - 2), [](std::int64_t word) { return word != 0; });
  while (bits >> kMantissa != 0) {
    leading.more |= (bits & 1U) != 0;
    bits >>= 1;
    ++leading.exponent;
  }
  leading.mantissa = static_cast<double>(static_cast<std::uint64_t>(bits));
  return leading;
}

double ExactSquares::value() const {
  if (words_[kNoNumber] > 0) return std::numeric_limits<double>::quiet_NaN();
  if (words_[kInfinite] > 0) return std::numeric_limits<double>::infinity();
  if (words_[kDigits - 1] < 0) return -negated().value();
  Leading sum = leading();
  // Rounding must know whether more than half a unit is cut off. The last bit can say so, since it is itself cut off.
  if (sum.more) sum.mantissa = static_cast<double>(static_cast<std::uint64_t>(sum.mantissa) | 1U);
  return rounded(std::ldexp(sum.mantissa, sum.exponent));
}

std::optional<double> ExactSquares::settled_value() const {
  if (words_[kNoNumber] > 0 || words_[kInfinite] > 0) return {};
  const Leading sum = leading();
  return settled_value(std::ldexp(sum.mantissa, sum.exponent));
}

std::optional<double> ExactSquares::settled_value(double sum) {
  if (!std::isfinite(sum)) return {};
  const double low = rounded(sum * (1 - kRelativeError)), high = rounded(sum * (1 + kRelativeError));
  if (low != high) return {};
  return low;
}

}  // namespace unisono
