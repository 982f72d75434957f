#include "update_rule.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace unisono {
namespace {

template <typename Vector>
Vector slice(Vector vector, const Range& range) {
  return vector.subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.last - range.first));
}

}  // namespace

UpdateRule::UpdateRule(const OptimizerSettings& settings, const ParameterLayout& layout, Backend& backend,
                       const std::vector<std::string>& state_names, bool adapt_weights)
    : backend_(backend),
      ranges_(make_ranges(layout, {.decay = settings.weight_decay != 0,
                                   .decay_biases_and_norms = settings.decay_biases_and_norms,
                                   .adapt_weights = adapt_weights})),
      own_state_(state_names.size()),
      weight_decay_(settings.weight_decay),
      clip_norm_(settings.clip_norm) {
  for (const std::string& name : state_names) state_.push_back({name, Buffer(layout.size())});
}

void UpdateRule::step(MutableView parameters, View gradient, double learning_rate, float gradient_scale) {
  assert(parameters.size() == gradient.size());
  assert(ranges_.empty() || static_cast<Index>(parameters.size()) == ranges_.back().last);
  ++steps_;
  gradient_scale = clip(gradient, gradient_scale);
  for (const Range& range : ranges_) {
    update({.theta = slice(parameters, range),
            .g = slice(gradient, range),
            .rate = static_cast<float>(learning_rate),
            .decay = range.decays ? static_cast<float>(weight_decay_) : 0.0F,
            .gradient_scale = gradient_scale,
            .range = range});
  }
}

void UpdateRule::reset() {
  for (OptimizerState& state : state_) std::ranges::fill(state.values.view(), 0.0F);
  steps_ = 0;
}

MutableView UpdateRule::state_part(std::size_t which, const Range& range) {
  return which < own_state_ ? slice(state_[which].values.view(), range) : MutableView{};
}

/// \return the scale that leaves no larger norm
float UpdateRule::clip(View gradient, float gradient_scale) {
  if (clip_norm_ == 0) return gradient_scale;
  gradient_norm_ = static_cast<double>(gradient_scale) * std::sqrt(backend_.squared_norm(gradient));
  return gradient_norm_ > clip_norm_ ? static_cast<float>(clip_norm_ / gradient_norm_) * gradient_scale
                                     : gradient_scale;
}

}  // namespace unisono
