#pragma once

#include <cmath>
#include <limits>

namespace unisono::data {

/// Count, mean and Σ (x − mean)² of a set of numbers, and their combination for the union of two sets. Chan, Golub &
/// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979. Equal numbers that are
/// united one by one have the deviation 0 exactly.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void unite(const Moments& other) {
    const double together = count + other.count, apart = other.mean - mean;
    mean += apart * other.count / together;
    squares += other.squares + apart * apart * count * other.count / together;
    count = together;
  }
  double deviation() const { return std::sqrt(squares / count); }
};

/// What values of this standard deviation are multiplied by, for a deviation of 1. For values that are all the same, or
/// so near each other that the factor would be infinite, it is 1.
inline float factor_of(double deviation) {
  constexpr double kLeast = 1.0 / std::numeric_limits<float>::max();
  return deviation >= kLeast ? static_cast<float>(1 / deviation) : 1.0F;
}

}  // namespace unisono::data
