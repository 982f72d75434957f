#pragma once

#include <string>
#include <variant>

#include "unisono/kernels/sequence_kernels.hpp"
#include "unisono/kernels/specs.hpp"

// What the layers of a network compute outside training, in the terms of other programs: for exports, which write the
// network in another form. Blocks of parameters and of running statistics are named as in the layouts.

namespace unisono::nn {

/// y = x Wᵀ + b. \see kernels::DenseSpec
struct DenseOperation {
  kernels::DenseSpec spec;
  std::string weight, bias;  ///< `bias` is empty: there is none
};
struct ConvolutionOperation {
  kernels::ConvolutionSpec spec;
  std::string weight, bias;  ///< `bias` is empty: there is none
};
struct PoolOperation {
  kernels::PoolSpec spec;
};
/// y[c] = the mean of x[c, ·, ·].
struct GlobalMeanOperation {};
/// y[c] = γ[c] (x[c] − mean[c]) / √(variance[c] + ε) + β[c], mean and variance being running statistics.
struct BatchNormOperation {
  double epsilon, momentum;
  std::string gamma, beta, mean, variance;
};
struct LayerNormOperation {
  kernels::NormSpec spec;
  std::string gamma, beta;
};
struct RmsNormOperation {
  double epsilon;
  std::string gamma;
};
/// y[c] = γ[c] x[c].
struct ScaleOperation {
  std::string gamma;
};
struct ActivationOperation {
  kernels::ActivationSpec activation;
};
/// Outside training y = x.
struct DropoutOperation {
  double rate;
};
/// y = x + the second input.
struct AdditionOperation {};
/// y[c] = x[c] · the second input [c].
struct ChannelGateOperation {};
struct EmbeddingOperation {
  kernels::EmbeddingSpec spec;
  std::string weight, position;  ///< `position` is empty: positions are not learned
};
/// Of queries, keys and values to the values that attention gives; the projections are operations of their own.
struct AttentionOperation {
  kernels::AttentionSpec spec;
  double dropout;
};
/// y = silu(x₁) ⊙ x₂, the two halves of x.
struct GateOperation {};
/// y = x Wᵀ.
struct UnembeddingOperation {
  std::string weight;
};
struct SequencePoolOperation {
  kernels::SequencePoolSpec spec;
};

/// std::monostate: a layer that does not say what it computes.
using Operation =
    std::variant<std::monostate, DenseOperation, ConvolutionOperation, PoolOperation, GlobalMeanOperation,
                 BatchNormOperation, LayerNormOperation, RmsNormOperation, ScaleOperation, ActivationOperation,
                 DropoutOperation, AdditionOperation, ChannelGateOperation, EmbeddingOperation, AttentionOperation,
                 GateOperation, UnembeddingOperation, SequencePoolOperation>;

}  // namespace unisono::nn
