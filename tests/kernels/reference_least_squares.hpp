#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

// Linear equations in double, by Gaussian elimination.

namespace unisono::reference {

/// A x = b; A in rows.
struct Equations {
  std::vector<std::vector<double>> matrix;
  std::vector<double> right;

  explicit Equations(std::size_t n) : matrix(n, std::vector<double>(n)), right(n) {}

  /// A += weight · z zᵀ, b += target · z
  void add(const std::vector<double>& z, double weight, double target) {
    for (std::size_t i = 0; i < z.size(); ++i) {
      for (std::size_t j = 0; j < z.size(); ++j) matrix[i][j] += weight * z[i] * z[j];
      right[i] += target * z[i];
    }
  }
  void add_to_diagonal(double value) {
    for (std::size_t i = 0; i < right.size(); ++i) matrix[i][i] += value;
  }
  double trace() const {
    double sum = 0;
    for (std::size_t i = 0; i < right.size(); ++i) sum += matrix[i][i];
    return sum;
  }

  std::vector<double> solution() const {
    auto a = matrix;
    auto x = right;
    for (std::size_t k = 0; k < x.size(); ++k) {  // positive definite: no pivoting
      for (std::size_t i = k + 1; i < x.size(); ++i) {
        const double factor = a[i][k] / a[k][k];
        for (std::size_t j = k; j < x.size(); ++j) a[i][j] -= factor * a[k][j];
        x[i] -= factor * x[k];
      }
    }
    for (std::size_t k = x.size(); k-- > 0;) {
      for (std::size_t j = k + 1; j < x.size(); ++j) x[k] -= a[k][j] * x[j];
      x[k] /= a[k][k];
    }
    return x;
  }
};

inline double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double one : x) sum += one * one;
  return std::sqrt(sum);
}

inline double distance(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

}  // namespace unisono::reference
