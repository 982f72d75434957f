#include <memory>

#include "layers/catalog.hpp"
#include "layers/common.hpp"

namespace unisono::nn {
namespace {

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

void GlobalAveragePool::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.global_average_pool_forward(in_, pass.batch, views.x, views.y);
}

void GlobalAveragePool::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.global_average_pool_backward(in_, pass.batch, views.dy, views.dx);
}

std::unique_ptr<Layer> make_global_average_pool(const LayerSettings&, const Shape& in, const LayerContext&) {
  require_image(in, "global_average_pool");
  return std::make_unique<GlobalAveragePool>(in.extent);
}

}  // namespace

LayerKind global_average_pool_layer() {
  return {.name = "global_average_pool",
          .meaning = "mean of each channel over height and width",
          .make = make_global_average_pool};
}

}  // namespace unisono::nn
