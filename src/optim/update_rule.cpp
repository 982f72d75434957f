#include "update_rule.hpp"

#include <algorithm>
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
      has_block_rates_(adapt_weights),
      own_state_(state_names.size()),
      weight_decay_(settings.weight_decay),
      clip_norm_(settings.clip_norm) {
  for (const std::string& name : state_names) state_.push_back({name, Buffer(layout.size(), backend.memory())});
  if (clip_norm_ != 0) squared_norm_ = Buffer(2, backend.memory());
}

void UpdateRule::step(MutableView parameters, View gradient, double learning_rate, float gradient_scale) {
  assert(static_cast<Index>(parameters.size()) == whole_.front().last);
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
  begin(learning_rate, scale);
  update_floats({0, whole_.front().last}, ranges_, parameters, gradient);
}

void UpdateRule::begin_step(double learning_rate, float gradient_scale) {
  assert(steps_in_parts());
  begin(learning_rate, {.factor = gradient_scale});
}

void UpdateRule::begin(double learning_rate, const kernels::GradientScale& scale) {
  ++steps_;
  rate_ = learning_rate;
  scale_ = scale;
}

void UpdateRule::step_part(Index first, MutableView parameters, View gradient) {
  const Index last = first + std::ssize(parameters);
  part_ranges_.clear();
  for (kernels::UpdateRange range : ranges_) {
    range.first = std::max(range.first, first) - first;
    range.last = std::min(range.last, last) - first;
    if (range.first < range.last) part_ranges_.push_back(range);
  }
  update_floats({first, last}, part_ranges_, parameters, gradient);
}

void UpdateRule::update_floats(FloatRange floats, std::span<const kernels::UpdateRange> ranges, MutableView parameters,
                               View gradient) {
  assert(parameters.size() == gradient.size());
  update({.theta = parameters,
          .g = gradient,
          .ranges = ranges,
          .floats = floats,
          .rate = static_cast<float>(rate_),
          .decay = static_cast<float>(weight_decay_),
          .scale = scale_});
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

MutableView UpdateRule::state_vector(std::size_t which, const RuleStep& step) {
  return which < own_state_ ? part(state_[which].values.view(), step.floats) : MutableView{};
}

}  // namespace unisono::optim
