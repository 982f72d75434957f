#pragma once

#include <memory>

#include "layers/catalog.hpp"

namespace unisono::nn {

/// y[c] = mean of x[c, ·, ·]. x [B, C, H, W], y [B, C]. Lin et al., ICLR 2014.
class GlobalAveragePool final : public Layer {
 public:
  explicit GlobalAveragePool(const kernels::Extent& in) : Layer({{in.channels, 1, 1}}), in_(in) {}

  LayerTraits traits() const override { return {}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::Extent in_;
};

/// \throws ConfigError where the input is no image
std::unique_ptr<Layer> make_global_average_pool(const LayerSettings& settings, const Shape& in,
                                                const LayerContext& context);

}  // namespace unisono::nn
