#include "layers/divided.hpp"

namespace unisono::nn {
namespace {

/// to = the sum of `from` over the ranks; the same memory, or another.
void sum(const Pass& pass, const kernels::Extent& extent, Index rows, View from, MutableView to) {
  if (to.data() != from.data()) {
    pass.backend.activation_forward(kernels::Activation::none, extent, rows, from, to);
  }
  if (pass.tensor == nullptr) return;
  const Index floats = pass.backend.activation_size(extent, rows);
  pass.tensor->sum_leaves(to.first(static_cast<std::size_t>(floats)));
}

}  // namespace

void GradientSum::backward(const Pass& pass, const BackwardViews& views) const {
  if (!views.dx.empty()) sum(pass, out().extent, rows(pass), views.dy, views.dx);
}

void OutputSum::forward(const Pass& pass, const ForwardViews& views) const {
  sum(pass, out().extent, rows(pass), views.x, views.y);
}

}  // namespace unisono::nn
