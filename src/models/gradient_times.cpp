#include "unisono/models/gradient_times.hpp"

#include <algorithm>

namespace unisono::models {

GradientTimes::GradientTimes(const std::vector<LayerSummary>& layers) {
  double flops = 0;
  for (const LayerSummary& layer : layers) flops += layer.flops_per_example;
  Index first = 0;
  double before = 0;  // flops of earlier layers
  for (const LayerSummary& layer : layers) {
    if (layer.parameters > 0) {
      first_.push_back(first);
      share_.push_back(flops > 0 ? 1 - (1 - kForward) * before / flops : 1);
    }
    first += layer.parameters;
    before += layer.flops_per_example;
  }
}

double GradientTimes::of(Index parameter) const {
  const auto behind = std::ranges::upper_bound(first_, parameter);
  return behind == first_.begin() ? 1 : share_[static_cast<std::size_t>(behind - first_.begin()) - 1];
}

}  // namespace unisono::models
