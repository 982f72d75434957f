#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "network_trial.hpp"

namespace unisono::nn {

/// Compares a network's gradient with central differences, parameter by parameter; that of frozen ones must be 0.
///
/// With D(h) = (8 (L(+h) − L(−h)) − (L(+2h) − L(−2h))) / 12h, whose error is O(h⁴):
///   truncation  |D(2h) − D(h)| / 15 estimates D(h)'s (Richardson); twice that is allowed
///   rounding    activations are floats, so L has noise of deviation σ; D's is √(2·8² + 2) σ / 12h = 0.95 σ/h, of which
///               six are allowed. σ is measured: third differences of independent noise have deviation √20 σ
///               (Moré and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 2011)
///   gradient    some ten roundings of values up to the largest gradient: 2⁻²⁰ of it
/// The check has teeth: all of this must stay below 1/200 of the largest gradient. It would not across a kink.
class GradientCheck {
 public:
  GradientCheck(Trial& trial, double h) : trial_(trial), h_(h) {}

  void run() {
    trial_.loss_and_gradient();
    largest_ = 0;
    for_each_parameter([&](std::size_t i) { largest_ = std::max(largest_, std::abs(slope(i))); });
    REQUIRE(largest_ > 0);
    for (const Block& block : trial_.network.parameters().blocks()) {
      if (block.frozen) CHECK(std::ranges::all_of(part(trial_.gradient.view(), block), [](float g) { return g == 0; }));
    }
    double sigma = 0;
    for_each_parameter([&](std::size_t i) { sigma = std::max(sigma, noise(i)); });
    for_each_parameter([&](std::size_t i) {
      const double fine = difference(i, h_), coarse = difference(i, 2 * h_);
      const double tolerance = 2 * std::abs(coarse - fine) / 15 + 6 * 0.95 * sigma / h_ + largest_ / (1 << 20);
      INFO(name_of(i) << ": gradient " << slope(i) << ", difference " << fine << ", tolerance " << tolerance);
      REQUIRE(tolerance < largest_ / 200);
      CHECK(std::abs(slope(i) - fine) <= tolerance);
    });
  }

 private:
  double slope(std::size_t i) { return trial_.gradient.view()[i]; }

  std::string name_of(std::size_t i) {
    for (const Block& block : trial_.network.parameters().blocks()) {
      const auto first = static_cast<std::size_t>(block.offset);
      if (i >= first && i < first + static_cast<std::size_t>(block.size())) {
        return block.name + "[" + std::to_string(i - first) + "]";
      }
    }
    return "padding";
  }

  template <typename Visit>
  void for_each_parameter(Visit visit) {
    for (const Block& block : trial_.network.parameters().blocks()) {
      if (block.frozen) continue;
      for (Index i = 0; i < block.size(); ++i) visit(static_cast<std::size_t>(block.offset + i));
    }
  }

  double loss_at(std::size_t i, double step) {
    float& value = trial_.theta.view()[i];
    const float old = value;
    value = static_cast<float>(old + step);
    const double loss = trial_.training_loss();
    value = old;
    return loss;
  }

  /// L(+h) − L(−h), for steps as the floats take them: a float's step differs from h by up to half an ulp of θ.
  double difference(std::size_t i, double h) {
    const auto slope_of = [&](double step) {
      const float old = trial_.theta.view()[i];
      const double taken = static_cast<double>(static_cast<float>(old + step)) - static_cast<float>(old - step);
      return (loss_at(i, step) - loss_at(i, -step)) / taken;
    };
    return (4 * slope_of(h) - slope_of(2 * h)) / 3;
  }

  /// σ of the loss around this point, from the third differences of eight neighbours.
  double noise(std::size_t i) {
    std::vector<double> losses;
    for (int k = 0; k < 8; ++k) losses.push_back(loss_at(i, k * 0x1p-18));
    for (int order = 0; order < 3; ++order) {
      for (std::size_t k = 0; k + 1 < losses.size(); ++k) losses[k] = losses[k + 1] - losses[k];
      losses.pop_back();
    }
    double sum = 0;
    for (const double d : losses) sum += d * d;
    return std::sqrt(sum / (20 * static_cast<double>(losses.size())));
  }

  Trial& trial_;
  double h_;
  double largest_ = 0;
};

inline constexpr double kSmooth = 0x1p-5;  // for networks without kinks
inline constexpr double kKinked = 0x1p-9;  // the data are chosen so that no step of twice this crosses a kink

inline void check_gradient(kernels::Backend& backend, const TrialSettings& settings, double h = kSmooth) {
  LocalReducer reducer;
  Trial trial(backend, settings, reducer);
  GradientCheck(trial, h).run();
}

}  // namespace unisono::nn
