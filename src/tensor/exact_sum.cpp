#include "unisono/tensor/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace unisono {
namespace {

constexpr int kDigits = ExactSquares::kWords - 2, kInfinite = kDigits, kNoNumber = kDigits + 1;
constexpr int kLeastExponent = -298;  // of (2⁻¹⁴⁹)², the square of the smallest float
constexpr std::uint64_t kLowWord = 0xFFFFFFFFU;

}  // namespace

void ExactSquares::add(View values) {
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kMostAdded - added_);
    std::size_t lane = added_;
    for (const float value : values.first(count)) {
      const auto bits = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
      const std::uint32_t exponent = bits >> 23, fraction = bits & 0x7FFFFFU;
      const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | 0x800000U;
      if (exponent == 255) {
        ++words_[static_cast<std::size_t>(fraction == 0 ? kInfinite : kNoNumber)];
      } else {
        bins_[lane % kLanes][exponent] += mantissa * mantissa;
      }
      ++lane;
    }
    added_ += count;
    if (added_ == kMostAdded) empty_bins();
    values = values.subspan(count);
  }
}

void ExactSquares::empty_bins() {
  for (auto& lane : bins_) {
    for (std::size_t exponent = 0; exponent < lane.size(); ++exponent) {
      // Its numbers are mantissa · 2^(position/2 − 149).
      const std::uint64_t sum = std::exchange(lane[exponent], 0);
      const std::size_t position = exponent == 0 ? 0 : 2 * (exponent - 1), shift = position % 32;
      const std::uint64_t low = (sum & kLowWord) << shift, high = (sum >> 32) << shift;
      std::int64_t* const word = words_.data() + position / 32;
      word[0] += static_cast<std::int64_t>(low & kLowWord);
      word[1] += static_cast<std::int64_t>((low >> 32) + (high & kLowWord));
      word[2] += static_cast<std::int64_t>(high >> 32);
    }
  }
  added_ = 0;
  carry();
}

void ExactSquares::carry() {
  for (std::size_t i = 0; i + 1 < kDigits; ++i) {
    words_[i + 1] += words_[i] >> 32;
    words_[i] &= static_cast<std::int64_t>(kLowWord);
  }
}

void ExactSquares::add(const ExactSquares& other) {
  const auto words = other.words();
  for (std::size_t i = 0; i < words.size(); ++i) words_[i] += words[i];
  carry();
}

std::array<std::int64_t, ExactSquares::kWords> ExactSquares::words() const {
  ExactSquares sum = *this;
  sum.empty_bins();
  return sum.words_;
}

ExactSquares ExactSquares::of_words(const std::array<std::int64_t, kWords>& words) {
  ExactSquares sum;
  sum.words_ = words;
  sum.carry();
  return sum;
}

double ExactSquares::value() const {
  const auto words = this->words();
  if (words[kNoNumber] > 0) return std::numeric_limits<double>::quiet_NaN();
  if (words[kInfinite] > 0) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (int i = 0; i < kDigits; ++i) {  // from the smallest on
    sum += std::ldexp(static_cast<double>(words[static_cast<std::size_t>(i)]), 32 * i + kLeastExponent);
  }
  return sum;
}

}  // namespace unisono
