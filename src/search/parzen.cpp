#include "parzen.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "method_kind.hpp"

namespace unisono::search {
namespace {

/// The normal distribution function.
double normal_share(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

}  // namespace

ParzenEstimator::ParzenEstimator(std::vector<double> observations) {
  std::ranges::sort(observations);
  const double least = 1 / std::min(100.0, static_cast<double>(observations.size()) + 1);
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const double x = observations[i];
    const double below = i == 0 ? 0 : observations[i - 1];
    const double above = i + 1 == observations.size() ? 1 : observations[i + 1];
    const double width = std::max({x - below, above - x, least});
    normals_.push_back({x, width, normal_share((1 - x) / width) - normal_share(-x / width)});
  }
}

double ParzenEstimator::draw(RandomStream& random) const {
  const std::uint64_t i = random.below(normals_.size() + 1);
  if (i == normals_.size()) return uniform(random);
  for (;;) {  // the mean lies within, so that at least a third of the draws do
    const double x = normals_[i].mean + normals_[i].width * static_cast<double>(random.normal());
    if (x >= 0 && x < 1) return x;
  }
}

double ParzenEstimator::density(double x) const {
  double sum = 1;
  for (const auto& [mean, width, mass] : normals_) {
    const double z = (x - mean) / width;
    sum += std::exp(-0.5 * z * z) / (std::sqrt(2 * std::numbers::pi) * width * mass);
  }
  return sum / (static_cast<double>(normals_.size()) + 1);
}

}  // namespace unisono::search
