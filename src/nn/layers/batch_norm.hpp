#pragma once

#include <span>
#include <string>

#include "unisono/nn/layer.hpp"

namespace unisono::nn {

/// y[c] = γ[c] x̂[c] + β[c] with x̂ = (x − mean) / √(variance + ε), for each channel; a following ReLU and the addition
/// of a residual block can be fused into it.
///
/// Training: mean and (biased) variance of the micro-batch, of this rank's part of it (local) or of all ranks' (global:
/// one sum of 2C + 1 doubles over the ranks, forward and backward). Running values follow them,
///     running ← (1 − momentum) running + momentum · batch,    the variance unbiased (n − 1; a single value counts as
///     0),
/// and take their place outside training. Ioffe and Szegedy, ICML 2015.
///
/// Frozen: the running values do not change. They are used in training, too, and are constants in the backward pass.
class BatchNorm final : public Layer {
 public:
  struct Options {
    bool global = false;
    double momentum = 0.1, epsilon = 1e-5;
  };
  BatchNorm(const Options& options, const Shape& in);

  LayerTraits traits() const override;
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  Index kept_size() const override;
  Index carried_size() const override;
  Index moments_size() const override;
  std::string note() const override;
  void freeze() override { frozen_ = true; }
  bool absorb_relu() override;
  bool absorb_addition() override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void apply_moments(const Pass& pass, MutableView moments) const override;

 private:
  struct Kept {
    MutableView mean, inverse_deviation;  ///< [C], from the forward pass for the backward pass
    std::span<double> sums;               ///< [2C + 1] sums of the forward pass, then of the backward pass
  };
  struct Gradients {
    MutableView gamma, beta;  ///< [C]
  };
  Index sums_size() const;  ///< floats
  Kept parts_of(MutableView kept) const;
  Gradients parts_of_carried(MutableView carried) const;
  Gradients gradients_of(const Pass& pass, const BackwardViews& views) const;
  std::span<double> sums_in(MutableView moments) const;
  void sum_over_ranks(const Pass& pass, std::span<double> sums) const;
  void batch_moments(const Pass& pass, const ForwardViews& views, const Kept& kept) const;
  void input_gradient(const Pass& pass, const BackwardViews& views, const Kept& kept) const;
  void take_carried(const Pass& pass, const BackwardViews& views) const;

  Options options_;
  kernels::NormSpec spec_;
  bool adds_residual_ = false, frozen_ = false;
  Block gamma_, beta_, mean_, variance_;
};

}  // namespace unisono::nn
