#include "layers/pool.hpp"

#include <fmt/format.h>

#include "layers/common.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

// A window that lies in the padding alone would have no values: padding is at most half a window.
void check_fit(const kernels::PoolSpec& spec) {
  if (2 * spec.padding_height > spec.height || 2 * spec.padding_width > spec.width) {
    throw ConfigError(fmt::format("padding {} is more than half of the window {}; use less padding",
                                  text_of(Pair{spec.padding_height, spec.padding_width}),
                                  text_of(Pair{spec.height, spec.width})));
  }
  if (spec.height <= spec.in.height + 2 * spec.padding_height && spec.width <= spec.in.width + 2 * spec.padding_width) {
    return;
  }
  throw ConfigError(fmt::format("the window {} is larger than the input {}; use a smaller window",
                                text_of(Pair{spec.height, spec.width}), text_of(Shape{spec.in})));
}

std::unique_ptr<Layer> make_pool(kernels::PoolKind kind, const LayerSettings& settings, const Shape& in) {
  require_image(in, "pooling");
  const Pair size = pair_of(settings.size, {2, 2}, "size");
  const Pair stride = pair_of(settings.stride, size, "stride");
  const Pair padding = pair_of(settings.padding, {0, 0}, "padding");
  const kernels::PoolSpec spec{.kind = kind,
                               .in = in.extent,
                               .height = size.height,
                               .width = size.width,
                               .stride_height = stride.height,
                               .stride_width = stride.width,
                               .padding_height = padding.height,
                               .padding_width = padding.width};
  check_fit(spec);
  return std::make_unique<Pool>(spec);
}

}  // namespace

// Where the maximum was is found again from the values themselves; a mean needs only its gradient.
LayerTraits Pool::traits() const {
  const bool max = spec_.kind == kernels::PoolKind::max;
  return {.keeps_input = max, .keeps_output = max};
}

void Pool::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.pool_forward(spec_, pass.batch, views.x, views.y);
}

void Pool::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.pool_backward(spec_, pass.batch, views.x, views.y, views.dy, views.dx);
}

void describe_pool(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "size",
                 .meaning = "size of the window: one number, or [height, width]; 2 if left out",
                 .minimum = 1,
                 .maximum = kLargestSize},
                settings.size);
  visitor.field(
      {.name = "stride",
       .meaning = "stride between windows: one number, or [height, width]; the size of the window if left out",
       .minimum = 1,
       .maximum = kLargestSize},
      settings.stride);
  visitor.field(
      {.name = "padding",
       .meaning = "padding on each side, at most half a window: one number, or [height, width]; 0 if left out",
       .minimum = 0,
       .maximum = kLargestSize},
      settings.padding);
}

std::unique_ptr<Layer> make_max_pool(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return make_pool(kernels::PoolKind::max, settings, in);
}

std::unique_ptr<Layer> make_average_pool(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return make_pool(kernels::PoolKind::average, settings, in);
}

}  // namespace unisono::nn
