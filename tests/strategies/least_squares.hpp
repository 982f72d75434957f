#pragma once

#include <algorithm>
#include <utility>

#include "training.hpp"

namespace unisono::strategies {

inline constexpr std::size_t kBias = 16;  ///< of a least-squares model of up to 16 inputs, in θ

/// y = w·x + b with the loss (y − t)², written out; θ = [w, padding, b, padding], zero at first. Where it keeps a
/// statistic, that is a running mean of each rank's own features,
///     running ← (1 − m) running + m · mean over the batch.
class LeastSquares final : public models::Model {
 public:
  explicit LeastSquares(Index inputs, float statistic_momentum = 0) : momentum_(statistic_momentum) {
    add(layout_, "weight", inputs, Role::weight);
    add(layout_, "bias", 1, Role::bias);
    if (momentum_ > 0) add(statistics_, "mean", inputs, Role::statistic);
  }

  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics_layout() const override { return statistics_; }
  void initialise(std::uint64_t, models::ModelState) const override {}

  void loss_and_gradient(const data::Batch& batch, float scale, models::ModelState state,
                         const models::GradientTarget& target, kernels::LossSums& sums) override {
    const MutableView w = part(target.gradient, weight()), b = part(target.gradient, bias());
    if (target.write == kernels::Write::overwrite) {
      std::ranges::fill(w, 0.0F);
      std::ranges::fill(b, 0.0F);
    }
    for (Index i = 0; i < batch.size; ++i) {
      const View x = row(batch, i);
      const float residual = output(x, state) - batch.targets[static_cast<std::size_t>(i)];
      sums.loss += static_cast<double>(residual) * static_cast<double>(residual);
      for (std::size_t j = 0; j < x.size(); ++j) w[j] += scale * 2 * residual * x[j];
      b[0] += scale * 2 * residual;
    }
    sums.examples += batch.size;
    if (batch.size > 0 && momentum_ > 0) follow(batch, state);
    if (target.ready) {
      target.ready(bias().offset, layout_.size());
      target.ready(0, bias().offset);
    }
  }

  void evaluate(const data::Batch&, models::ModelState, kernels::LossSums&) override {}
  void predict(const data::Batch&, models::ModelState, MutableView) override {}
  Index output_size() const override { return 1; }
  std::vector<models::Metric> metrics(const kernels::LossSums&) const override { return {}; }
  std::vector<models::LayerSummary> summary(Index) const override { return {}; }
  double flops_per_example() const override { return 0; }
  Index workspace_bytes(Index) const override { return 0; }

 private:
  static void add(ParameterLayout& layout, const char* name, Index size, Role role) {
    Block block;
    block.name = name;
    block.shape = {size};
    block.role = role;
    layout.add(block);
  }
  const Block& weight() const { return layout_.blocks()[0]; }
  const Block& bias() const { return layout_.blocks()[1]; }

  View row(const data::Batch& batch, Index i) const {
    const auto inputs = static_cast<std::size_t>(weight().size());
    return batch.features.subspan(static_cast<std::size_t>(i) * inputs, inputs);
  }
  float output(View x, models::ModelState state) const {
    const View w = part(View(state.parameters), weight());
    float y = part(View(state.parameters), bias())[0];
    for (std::size_t j = 0; j < x.size(); ++j) y += w[j] * x[j];
    return y;
  }
  void follow(const data::Batch& batch, models::ModelState state) const {
    for (std::size_t j = 0; j < static_cast<std::size_t>(weight().size()); ++j) {
      float sum = 0;
      for (Index i = 0; i < batch.size; ++i) sum += row(batch, i)[j];
      state.statistics[j] = (1 - momentum_) * state.statistics[j] + momentum_ * sum / static_cast<float>(batch.size);
    }
  }

  float momentum_;
  ParameterLayout layout_, statistics_;
};

inline MakeModel least_squares(float statistic_momentum = 0) {
  return [=](const models::ModelInputs& inputs, const models::ModelContext&) {
    return std::make_unique<LeastSquares>(inputs.features.size(), statistic_momentum);
  };
}

/// Without an expansion of all numbers where it fails.
inline bool is_same(View a, View b) { return std::ranges::equal(a, b); }

}  // namespace unisono::strategies
