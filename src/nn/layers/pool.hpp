#pragma once

#include <memory>

#include "layers/catalog.hpp"

namespace unisono::nn {

/// y = the largest value, or the mean, of each window. Padding never wins a maximum and does not count in a mean.
class Pool final : public Layer {
 public:
  explicit Pool(const kernels::PoolSpec& spec) : Layer({spec.out()}), spec_(spec) {}

  LayerTraits traits() const override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::PoolSpec spec_;
};

void describe_pool(LayerSettings& settings, ConfigVisitor& visitor);
/// \throws ConfigError where the window does not fit the input
std::unique_ptr<Layer> make_max_pool(const LayerSettings& settings, const Shape& in, const LayerContext& context);
std::unique_ptr<Layer> make_average_pool(const LayerSettings& settings, const Shape& in, const LayerContext& context);

}  // namespace unisono::nn
