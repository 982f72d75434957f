#include "layers/global_average_pool.hpp"

#include "layers/common.hpp"

namespace unisono::nn {

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

}  // namespace unisono::nn
