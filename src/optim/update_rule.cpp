#include "update_rule.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <cmath>

namespace unisono::optim {

UpdateRule::UpdateRule(const OptimizerSettings& settings, const ParameterLayout& layout,
                       kernels::UpdateKernels& backend, const std::vector<std::string>& state_names, bool adapt_weights)
    : backend_(backend),
      ranges_(make_ranges(layout, {.decay = settings.weight_decay != 0,
                                   .decay_biases_and_norms = settings.decay_biases_and_norms,
                                   .adapt_weights = adapt_weights})),
      whole_({{.first = 0, .last = layout.size()}}),
      own_state_(state_names.size()),
      weight_decay_(settings.weight_decay),
      clip_norm_(settings.clip_norm) {
  for (const std::string& name : state_names) state_.push_back({name, Buffer(layout.size(), backend.memory())});
  if (clip_norm_ != 0) squared_norm_ = Buffer(2, backend.memory());
}

void UpdateRule::step(MutableView parameters, View gradient, double learning_rate, float gradient_scale) {
  assert(parameters.size() == gradient.size());
  assert(static_cast<Index>(parameters.size()) == whole_.front().last);
  ++steps_;
  kernels::GradientScale scale{.factor = gradient_scale};
  if (clip_norm_ != 0) {
    const std::span<double> norm = as_doubles(squared_norm_.view());
    if (divided_) {
      norm.front() = divided_->whole(squares_of(gradient));
    } else {
      backend_.squared_norms(gradient, whole_, norm);
    }
    scale.clip_norm = clip_norm_;
    scale.squared_norm = norm;
    last_factor_ = gradient_scale;
  }
  update({.theta = parameters,
          .g = gradient,
          .rate = static_cast<float>(learning_rate),
          .decay = static_cast<float>(weight_decay_),
          .scale = scale});
  backend_.submit();
}

void UpdateRule::reset() {
  for (OptimizerState& state : state_) backend_.clear(state.values.view());
  steps_ = 0;
}

double UpdateRule::last_gradient_norm() const {
  if (last_factor_ < 0) return -1;
  std::array<float, 2> halves{};
  backend_.memory().copy(squared_norm_.view(), halves);
  return static_cast<double>(last_factor_) * std::sqrt(std::bit_cast<double>(halves));
}

DividedSums::Add UpdateRule::squares_of(View vector) {
  return [this, vector](const kernels::UpdateRange& range, bool exactly, ExactSquares& sum) {
    backend_.sum_squares(vector, {&range, 1}, exactly, {&sum, 1});
  };
}

MutableView UpdateRule::state_vector(std::size_t which) {
  return which < own_state_ ? state_[which].values.view() : MutableView{};
}

}  // namespace unisono::optim
