#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "unisono/optim/catalog.hpp"

// Functions that whole-batch methods minimise in tests.

namespace unisono::optim {

using Numbers = std::vector<double>;

/// f(x), and its gradient, in double.
using Smooth = std::function<double(const Numbers& x, Numbers& gradient)>;

/// A function of one rank. Counts what it is asked for.
class TestFunction : public BatchFunction {
 public:
  TestFunction(Index size, Smooth smooth) : size_(size), smooth_(std::move(smooth)) {}

  Index size() const override { return size_; }
  double value_and_gradient(View x, MutableView gradient) override {
    ++evaluations;
    Numbers g(x.size());
    const double value = smooth_(Numbers(x.begin(), x.end()), g);
    for (std::size_t i = 0; i < g.size(); ++i) gradient[i] = static_cast<float>(g[i]);
    return value;
  }
  /// By central differences of the gradient, in double.
  bool hessian_times(View x, View v, MutableView product) override {
    const bool formed = formed_at == Numbers(x.begin(), x.end());
    if (!formed) ++products;
    double norm = 0;
    for (const float one : v) norm += static_cast<double>(one) * one;
    const double h = 1e-5 / std::sqrt(norm);
    Numbers above(x.begin(), x.end()), below = above, g_above(x.size()), g_below(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      above[i] += h * v[i];
      below[i] -= h * v[i];
    }
    smooth_(above, g_above);
    smooth_(below, g_below);
    for (std::size_t i = 0; i < x.size(); ++i) product[i] = static_cast<float>((g_above[i] - g_below[i]) / (2 * h));
    return !formed;
  }
  double hessian_cost() const override { return cost; }
  void form_hessian(View x) override {
    ++hessians;
    formed_at = Numbers(x.begin(), x.end());
  }
  void sum(std::span<double> sums, const AddTerms& add) override {
    std::ranges::fill(sums, 0);
    add(0, size_, sums);
  }
  double largest_magnitude(View v) override {
    double largest = 0;
    for (const float one : v) {
      if (std::isnan(one)) return one;
      largest = std::max(largest, std::abs(static_cast<double>(one)));
    }
    return largest;
  }
  std::span<const L1Range> l1() const override { return ranges; }
  bool has_l1() const override { return !ranges.empty(); }

  std::vector<L1Range> ranges{};
  int evaluations = 0, products = 0, hessians = 0;
  double cost = std::numeric_limits<double>::infinity();  ///< of a Hessian matrix
  Numbers formed_at{};

 private:
  Index size_;
  Smooth smooth_;
};

/// ½ Σ λ_i (x_i − 1)², rotated a little so that its axes are not those of x: x_i and x_{i+1} are mixed by a rotation.
inline Smooth quadratic(Numbers eigenvalues) {
  return [eigenvalues = std::move(eigenvalues)](const Numbers& x, Numbers& g) {
    const std::size_t n = x.size();
    Numbers z(n);
    for (std::size_t i = 0; i < n; ++i) z[i] = x[i] - 1;
    for (std::size_t i = 0; i + 1 < n; ++i) {  // z ← rotation of the plane (i, i + 1)
      const double a = z[i], b = z[i + 1];
      z[i] = 0.8 * a + 0.6 * b;
      z[i + 1] = -0.6 * a + 0.8 * b;
    }
    double value = 0;
    for (std::size_t i = 0; i < n; ++i) {
      value += eigenvalues[i] * z[i] * z[i] / 2;
      g[i] = eigenvalues[i] * z[i];
    }
    for (std::size_t i = n - 1; i-- > 0;) {
      const double a = g[i], b = g[i + 1];
      g[i] = 0.8 * a - 0.6 * b;
      g[i + 1] = 0.6 * a + 0.8 * b;
    }
    return value;
  };
}

/// Σ r_i² from residuals, each with its derivatives: residuals(x, add), add(r, {{index, dr/dx_index}, …}).
using AddResidual = std::function<void(double r, const std::vector<std::pair<std::size_t, double>>& derivatives)>;
inline Smooth least_squares(std::function<void(const Numbers& x, const AddResidual& add)> residuals) {
  return [residuals = std::move(residuals)](const Numbers& x, Numbers& g) {
    double value = 0;
    g.assign(x.size(), 0);
    residuals(x, [&](double r, const std::vector<std::pair<std::size_t, double>>& derivatives) {
      value += r * r;
      for (const auto& [i, slope] : derivatives) g[i] += 2 * r * slope;
    });
    return value;
  };
}

/// A problem of Moré, Garbow, Hillstrom, "Testing unconstrained optimization software", ACM TOMS 7, 1981.
struct Problem {
  std::string name;
  std::vector<float> start;
  Smooth f;
  double minimum;
};

inline std::vector<float> repeated(std::vector<float> values, int times) {
  std::vector<float> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), values.begin(), values.end());
  return all;
}

/// Rosenbrock's function of pairs (their numbers 1 and 21).
inline Smooth rosenbrock() {
  return least_squares([](const Numbers& x, const AddResidual& add) {
    for (std::size_t i = 0; i < x.size(); i += 2) {
      add(10 * (x[i + 1] - x[i] * x[i]), {{i, -20 * x[i]}, {i + 1, 10}});
      add(1 - x[i], {{i, -1}});
    }
  });
}

inline std::vector<Problem> more_garbow_hillstrom() {
  std::vector<Problem> all;
  all.push_back({"1 Rosenbrock", {-1.2F, 1}, rosenbrock(), 0});
  all.push_back({"5 Beale",
                 {1, 1},
                 least_squares([](const Numbers& x, const AddResidual& add) {
                   const double y[] = {1.5, 2.25, 2.625};
                   for (int i = 1; i <= 3; ++i) {
                     const double power = std::pow(x[1], i);
                     add(y[i - 1] - x[0] * (1 - power), {{0, power - 1}, {1, x[0] * i * std::pow(x[1], i - 1)}});
                   }
                 }),
                 0});
  all.push_back({"7 helical valley",
                 {-1, 0, 0},
                 least_squares([](const Numbers& x, const AddResidual& add) {
                   const double pi = std::acos(-1.0), square = x[0] * x[0] + x[1] * x[1], root = std::sqrt(square);
                   const double theta = std::atan(x[1] / x[0]) / (2 * pi) + (x[0] < 0 ? 0.5 : 0);
                   const double turn = 10 * 10 / (2 * pi * square);
                   add(10 * (x[2] - 10 * theta), {{0, turn * x[1]}, {1, -turn * x[0]}, {2, 10}});
                   add(10 * (root - 1), {{0, 10 * x[0] / root}, {1, 10 * x[1] / root}});
                   add(x[2], {{2, 1}});
                 }),
                 0});
  all.push_back({"13 Powell, singular",
                 {3, -1, 0, 1},
                 least_squares([](const Numbers& x, const AddResidual& add) {
                   const double a = std::sqrt(5.0), b = std::sqrt(10.0), p = x[1] - 2 * x[2], q = x[0] - x[3];
                   add(x[0] + 10 * x[1], {{0, 1}, {1, 10}});
                   add(a * (x[2] - x[3]), {{2, a}, {3, -a}});
                   add(p * p, {{1, 2 * p}, {2, -4 * p}});
                   add(b * q * q, {{0, 2 * b * q}, {3, -2 * b * q}});
                 }),
                 0});
  all.push_back({"14 Wood",
                 {-3, -1, -3, -1},
                 least_squares([](const Numbers& x, const AddResidual& add) {
                   const double a = std::sqrt(90.0), b = std::sqrt(10.0);
                   add(10 * (x[1] - x[0] * x[0]), {{0, -20 * x[0]}, {1, 10}});
                   add(1 - x[0], {{0, -1}});
                   add(a * (x[3] - x[2] * x[2]), {{2, -2 * a * x[2]}, {3, a}});
                   add(1 - x[2], {{2, -1}});
                   add(b * (x[1] + x[3] - 2), {{1, b}, {3, b}});
                   add((x[1] - x[3]) / b, {{1, 1 / b}, {3, -1 / b}});
                 }),
                 0});
  all.push_back({"16 Brown and Dennis",
                 {25, 5, -5, -1},
                 least_squares([](const Numbers& x, const AddResidual& add) {
                   for (int i = 1; i <= 20; ++i) {
                     const double t = i / 5.0, u = x[0] + t * x[1] - std::exp(t);
                     const double v = x[2] + x[3] * std::sin(t) - std::cos(t);
                     add(u * u + v * v, {{0, 2 * u}, {1, 2 * u * t}, {2, 2 * v}, {3, 2 * v * std::sin(t)}});
                   }
                 }),
                 85822.2});
  all.push_back({"21 Rosenbrock, 50 pairs", repeated({-1.2F, 1}, 50), rosenbrock(), 0});
  all.push_back({"25 variably dimensioned",
                 {0.9F, 0.8F, 0.7F, 0.6F, 0.5F, 0.4F, 0.3F, 0.2F, 0.1F, 0},
                 least_squares([](const Numbers& x, const AddResidual& add) {
                   double sum = 0;
                   std::vector<std::pair<std::size_t, double>> slopes, square_slopes;
                   for (std::size_t i = 0; i < x.size(); ++i) {
                     const auto weight = static_cast<double>(i + 1);
                     add(x[i] - 1, {{i, 1}});
                     sum += weight * (x[i] - 1);
                     slopes.emplace_back(i, weight);
                   }
                   for (const auto& [i, weight] : slopes) square_slopes.emplace_back(i, 2 * sum * weight);
                   add(sum, slopes);
                   add(sum * sum, square_slopes);
                 }),
                 0});
  all.push_back({"30 Broyden, tridiagonal", repeated({-1}, 20),
                 least_squares([](const Numbers& x, const AddResidual& add) {
                   for (std::size_t i = 0; i < x.size(); ++i) {
                     const double before = i > 0 ? x[i - 1] : 0, after = i + 1 < x.size() ? x[i + 1] : 0;
                     std::vector<std::pair<std::size_t, double>> slopes = {{i, 3 - 4 * x[i]}};
                     if (i > 0) slopes.emplace_back(i - 1, -1);
                     if (i + 1 < x.size()) slopes.emplace_back(i + 1, -2);
                     add((3 - 2 * x[i]) * x[i] - before - 2 * after + 1, slopes);
                   }
                 }),
                 0});
  return all;
}

/// An optimizer with keys as users write them, without tolerances.
inline OptimizerSettings whole_batch(const std::string& kind, const std::string& keys = "") {
  OptimizerSettings settings{.kind = kind};
  const std::string text = "kind = '" + kind + "'\ngradient_tolerance = 0\n" + keys;
  parse_config({.path = "optimizer.toml", .text = text, .overrides = {}},
               [&](ConfigVisitor& visitor) { settings.describe(visitor); });
  return settings;
}

/// Iterates until the end, or so often. \return the last iteration
inline BatchIteration minimise(BatchMethod& method, BatchFunction& f, std::vector<float>& x, int iterations) {
  BatchIteration last;
  for (int i = 0; i < iterations && last.end == BatchEnd::none; ++i) last = method.iterate(f, x);
  return last;
}

}  // namespace unisono::optim
