#include <fmt/format.h>

#include <memory>

#include "layers/catalog.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

struct PoolSettings {
  std::vector<std::int64_t> size, stride, padding;  ///< one number or [height, width]
};

/// y = the largest value, or the mean, of each window. Padding never wins a maximum and does not count in a mean.
class Pool final : public Layer {
 public:
  explicit Pool(const kernels::PoolSpec& spec) : Layer({spec.out()}), spec_(spec) {}

  LayerTraits traits() const override;
  Operation operation() const override { return PoolOperation{spec_}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::PoolSpec spec_;
};

// A window that is all padding would have no values: so padding is at most half a window.
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

template <kernels::PoolKind kKind>
std::unique_ptr<Layer> make_pool(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  require_image(in, "pooling");
  const auto own = settings.own.of<PoolSettings>();
  const Pair size = pair_of(own.size, {2, 2}, "size");
  const Pair stride = pair_of(own.stride, size, "stride");
  const Pair padding = pair_of(own.padding, {0, 0}, "padding");
  const kernels::PoolSpec spec{.kind = kKind,
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

// The backward pass finds the maximum's place again from x and y; that of a mean needs only dy.
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
  auto& own = settings.own.of<PoolSettings>();
  visitor.field({.name = "size",
                 .meaning = "size of the window: one number, or [height, width]; 2 if left out",
                 .range = at_least(1).at_most(kLargestSize)},
                own.size);
  visitor.field(
      {.name = "stride",
       .meaning = "stride between windows: one number, or [height, width]; the size of the window if left out",
       .range = at_least(1).at_most(kLargestSize)},
      own.stride);
  visitor.field(
      {.name = "padding",
       .meaning = "padding on each side, at most half a window: one number, or [height, width]; 0 if left out",
       .range = at_least(0).at_most(kLargestSize)},
      own.padding);
}

}  // namespace

LayerKind max_pool_layer() {
  return {.name = "max_pool",
          .meaning = "maximum of each window",
          .describe = describe_pool,
          .make = make_pool<kernels::PoolKind::max>};
}

LayerKind average_pool_layer() {
  return {.name = "average_pool",
          .meaning = "mean of each window, without the padding",
          .describe = describe_pool,
          .make = make_pool<kernels::PoolKind::average>};
}

namespace {

struct GlobalPoolSettings {
  std::vector<std::int64_t> size;  ///< of the output: one number or [height, width]
};

/// y[c] = mean of x[c, ·, ·]. x [B, C, H, W], y [B, C]. Lin et al., ICLR 2014.
class GlobalAveragePool final : public Layer {
 public:
  explicit GlobalAveragePool(const kernels::Extent& in) : Layer({{in.channels, 1, 1}}), in_(in) {}

  LayerTraits traits() const override { return {}; }
  Operation operation() const override { return GlobalMeanOperation{}; }
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

void describe_global_average_pool(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "size",
                 .meaning = "size of the output: one number, or [height, width]; 1 if left out. Output i of n is the "
                            "mean of the inputs from ⌊i·H/n⌋ to ⌈(i + 1)·H/n⌉ − 1, whatever the size H of the input",
                 .range = at_least(1).at_most(kLargestSize)},
                settings.own.of<GlobalPoolSettings>().size);
}

std::unique_ptr<Layer> make_global_average_pool(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  require_image(in, "global_average_pool");
  const Pair size = pair_of(settings.own.of<GlobalPoolSettings>().size, {1, 1}, "size");
  if (size.height > 1 || size.width > 1) {
    return std::make_unique<Pool>(kernels::PoolSpec{
        .kind = kernels::PoolKind::average, .in = in.extent, .out_height = size.height, .out_width = size.width});
  }
  return std::make_unique<GlobalAveragePool>(in.extent);
}

}  // namespace

LayerKind global_average_pool_layer() {
  return {.name = "global_average_pool",
          .meaning = "mean of each channel over height and width, or over equal parts of them",
          .describe = describe_global_average_pool,
          .make = make_global_average_pool};
}

}  // namespace unisono::nn
