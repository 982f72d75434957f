// The loops that memory binds: bytes read and written per second. "plain" is the obvious loop over [B, C, H, W], as
// this file is compiled.
#include <algorithm>
#include <cmath>
#include <memory>

#include "harness.hpp"

namespace unisono::bench {
namespace {

/// As many vectors of one size.
std::vector<Index> equal(std::size_t count, Index size) { return std::vector<Index>(count, size); }

/// Calls f(c, i) for every index i of [kBatch, C, H, W].
template <typename Function>
void for_each(const kernels::Extent& extent, const Function& f) {
  const auto pixels = static_cast<std::size_t>(extent.height * extent.width);
  std::size_t i = 0;
  for (Index n = 0; n < kBatch; ++n) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(extent.channels); ++c) {
      for (std::size_t p = 0; p < pixels; ++p) f(c, i++);
    }
  }
}

void add_batch_norm(const kernels::Extent& extent, const std::string& shape) {
  const kernels::NormSpec spec{.extent = extent, .activation = kernels::Activation::relu};
  kernels::NormSpec with_residual = spec;
  with_residual.adds_residual = true;
  const auto channels = static_cast<std::size_t>(extent.channels);
  const Index size = kBatch * extent.size();
  const Work bytes = in_bytes(4.0 * static_cast<double>(size));
  const std::vector<float> ones(channels, 1.0F);
  const auto sums = std::make_shared<std::vector<double>>(2 * channels + 1);
  sums->back() = 65536;  // values a channel

  add(
      "batch_norm_sums/" + shape, equal(1, size), bytes,
      [=](kernels::Backend& b, Vectors& v) { b.batch_norm_sums(spec, kBatch, v[0], *sums); },
      [=](Vectors& v) {
        std::fill(sums->begin(), sums->end(), 0.0);
        for_each(extent, [&](std::size_t c, std::size_t i) {
          const auto x = static_cast<double>(v[0][i]);
          (*sums)[c] += x;
          (*sums)[channels + c] += x * x;
        });
      });
  add(
      "batch_norm_forward_relu/" + shape, equal(2, size), 2 * bytes,
      [=](kernels::Backend& b, Vectors& v) {
        b.batch_norm_forward(spec, kBatch, v[0], {ones, ones, ones, ones}, {}, v[1]);
      },
      [=](Vectors& v) {
        for_each(extent, [&](std::size_t c, std::size_t i) {
          v[1][i] = std::max(0.0F, ones[c] * (v[0][i] - ones[c]) * ones[c] + ones[c]);
        });
      });
  add("batch_norm_forward_residual_relu/" + shape, equal(3, size), 3 * bytes, [=](kernels::Backend& b, Vectors& v) {
    b.batch_norm_forward(with_residual, kBatch, v[0], {ones, ones, ones, ones}, v[2], v[1]);
  });
  add("batch_norm_backward_sums/" + shape, equal(3, size), 2 * bytes, [=](kernels::Backend& b, Vectors& v) {
    b.batch_norm_backward_sums(spec, kBatch, v[0], {ones, ones, ones, ones}, {}, v[2], *sums);
  });
  add("batch_norm_backward_sums_residual/" + shape, equal(3, size), 4 * bytes, [=](kernels::Backend& b, Vectors& v) {
    b.batch_norm_backward_sums(with_residual, kBatch, v[0], {ones, ones, ones, ones}, v[1], v[2], *sums);
  });
  add("batch_norm_backward/" + shape, equal(3, size), 3 * bytes, [=](kernels::Backend& b, Vectors& v) {
    b.batch_norm_backward(spec, kBatch, v[0], {ones, ones, ones, ones}, v[1], *sums, v[2]);
  });
}

void plain_max_pool(const kernels::PoolSpec& spec, View x, MutableView y) {
  const kernels::Extent out = spec.out();
  std::size_t at = 0;
  for (Index plane = 0; plane < kBatch * spec.in.channels; ++plane) {
    for (Index row = 0; row < out.height; ++row) {
      for (Index column = 0; column < out.width; ++column) {
        float best = -HUGE_VALF;
        for (Index ky = 0; ky < 2; ++ky) {
          for (Index kx = 0; kx < 2; ++kx) {
            best = std::max(
                best,
                x[static_cast<std::size_t>((plane * spec.in.height + 2 * row + ky) * spec.in.width + 2 * column + kx)]);
          }
        }
        y[at++] = best;
      }
    }
  }
}

void add_max_pool(const kernels::Extent& extent, const std::string& shape) {
  const kernels::PoolSpec spec{kernels::PoolKind::max, extent};
  const Index size = kBatch * extent.size();
  const Work bytes = in_bytes(4.0 * static_cast<double>(size));
  add(
      "max_pool_forward/" + shape, equal(2, size), 1.25 * bytes,
      [=](kernels::Backend& b, Vectors& v) { b.pool_forward(spec, kBatch, v[0], v[1]); },
      [=](Vectors& v) { plain_max_pool(spec, v[0], v[1]); });
  add("max_pool_backward/" + shape, equal(4, size), 2.5 * bytes,
      [=](kernels::Backend& b, Vectors& v) { b.pool_backward(spec, kBatch, v[0], v[1], v[2], v[3]); });
}

void add_element_wise() {
  const kernels::Extent extent{16, 32, 32};
  const Index size = kBatch * extent.size();
  const Work bytes = in_bytes(4.0 * static_cast<double>(size));
  const std::pair<kernels::Activation, std::string> activations[] = {{kernels::Activation::relu, "relu"},
                                                                     {kernels::Activation::gelu, "gelu"},
                                                                     {kernels::Activation::tanh, "tanh"},
                                                                     {kernels::Activation::silu, "silu"},
                                                                     {kernels::Activation::elu, "elu"},
                                                                     {kernels::Activation::softplus, "softplus"},
                                                                     {kernels::Activation::gelu_tanh, "gelu_tanh"}};
  for (const auto& [activation, name] : activations) {
    const kernels::ActivationSpec a(activation, 1);
    add(name + "_forward/4MiB", equal(2, size), 2 * bytes,
        [=](kernels::Backend& b, Vectors& v) { b.activation_forward(a, extent, kBatch, v[0], v[1]); });
    add(name + "_backward/4MiB", equal(4, size), 4 * bytes,
        [=](kernels::Backend& b, Vectors& v) { b.activation_backward(a, extent, kBatch, v[0], v[1], v[2], v[3]); });
  }
  add(
      "tanh_forward_libm/4MiB", equal(2, size), 2 * bytes,
      [=](kernels::Backend& b, Vectors& v) {
        b.activation_forward(kernels::Activation::tanh, extent, kBatch, v[0], v[1]);
      },
      [=](Vectors& v) {
        for (std::size_t i = 0; i < v[0].size(); ++i) v[1][i] = std::tanh(v[0][i]);
      });
  const std::vector<std::uint64_t> examples(kBatch, 3);
  add("dropout/4MiB", equal(2, size), 2 * bytes,
      [=](kernels::Backend& b, Vectors& v) { b.dropout({.seed = 1, .rate = 0.5F}, extent, examples, v[0], v[1]); });
  const std::vector<std::int32_t> labels(kBatch, 3);
  for (Index classes : {10, 1000}) {
    add("softmax_cross_entropy/64x" + std::to_string(classes), equal(2, kBatch * classes),
        in_bytes(8.0 * static_cast<double>(kBatch * classes)), [=](kernels::Backend& b, Vectors& v) {
          kernels::LossSums sums;
          b.softmax_cross_entropy(classes, kBatch, v[0], labels, 0.0F, 1.0F, v[1], sums);
          benchmark::DoNotOptimize(sums);
        });
  }
}

/// Layer normalisation reads more than once what it counts here once: x forward, x and dy backward.
void add_layer_norm() {
  for (Index features : {512, 4096}) {
    const kernels::NormSpec spec{{features, 1, 1}};
    const Index size = kBatch * features;
    const Work bytes = in_bytes(4.0 * static_cast<double>(size));
    const std::string shape = std::to_string(features);
    const auto parameters = std::make_shared<Vectors>(equal(4, features));
    add("layer_norm_forward/" + shape, equal(2, size), 2 * bytes, [=](kernels::Backend& b, Vectors& v) {
      b.layer_norm_forward(spec, kBatch, v[0], (*parameters)[0], (*parameters)[1], v[1]);
    });
    add("layer_norm_backward/" + shape, equal(3, size), 3 * bytes, [=](kernels::Backend& b, Vectors& v) {
      b.layer_norm_backward(spec, kBatch, v[0], (*parameters)[0], v[1], v[2], (*parameters)[2], (*parameters)[3],
                            kernels::Write::overwrite);
    });
  }
}

/// Rates are tiny, so that nothing overflows or becomes subnormal however often a step is repeated.
void add_vectors(Index size, const std::string& shape) {
  const Work bytes = in_bytes(4.0 * static_cast<double>(size));
  const std::vector<kernels::UpdateRange> all = {{.first = 0, .last = size, .decays = true}};
  add(
      "squared_norm/" + shape, equal(1, size), bytes,
      [](kernels::Backend& b, Vectors& v) { benchmark::DoNotOptimize(b.squared_norm(v[0])); },
      [](Vectors& v) {
        double sum = 0;
        for (float x : v[0]) sum += static_cast<double>(x) * static_cast<double>(x);
        benchmark::DoNotOptimize(sum);
      });
  add("axpby/" + shape, equal(2, size), 3 * bytes,
      [](kernels::Backend& b, Vectors& v) { b.axpby(1e-9F, v[0], 1.0F, v[1]); });
  add("sgd/" + shape, equal(2, size), 3 * bytes,
      [=](kernels::Backend& b, Vectors& v) { b.sgd_update({.rate = 1e-9F}, {}, all, v[0], v[1], {}); });
  add(
      "momentum/" + shape, equal(3, size), 5 * bytes,
      [=](kernels::Backend& b, Vectors& v) {
        b.sgd_update({.rate = 1e-9F, .momentum = 0.9F}, {}, all, v[0], v[1], v[2]);
      },
      [](Vectors& v) {
        const View g = v[0];
        const MutableView theta = v[1], velocity = v[2];
        for (std::size_t i = 0; i < g.size(); ++i) {
          velocity[i] = 0.9F * velocity[i] + g[i];
          theta[i] -= 1e-9F * velocity[i];
        }
      });
  add("adagrad/" + shape, equal(3, size), 5 * bytes, [=](kernels::Backend& b, Vectors& v) {
    b.adagrad_update({.rate = 1e-9F, .epsilon = 1e-8F}, {}, all, v[0], v[1], v[2]);
  });
  add("rmsprop/" + shape, equal(3, size), 5 * bytes, [=](kernels::Backend& b, Vectors& v) {
    b.rmsprop_update({.rate = 1e-9F, .smoothing = 0.99F, .epsilon = 1e-8F}, {}, all, v[0], v[1], v[2]);
  });
  const kernels::AdamStep adam{.rate = 1e-9F, .decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F};
  add(
      "adam/" + shape, equal(4, size), 7 * bytes,
      [=](kernels::Backend& b, Vectors& v) { b.adam_update(adam, {}, all, v[0], v[1], v[2], v[3]); },
      [=](Vectors& v) {
        const View g = v[0];
        const MutableView theta = v[1], m = v[2], s = v[3];
        for (std::size_t i = 0; i < g.size(); ++i) {
          const float d = g[i] + adam.decay * theta[i];
          m[i] = adam.beta1 * m[i] + (1 - adam.beta1) * d;
          s[i] = adam.beta2 * s[i] + (1 - adam.beta2) * d * d;
          theta[i] -= adam.rate * m[i] / (std::sqrt(s[i]) + adam.epsilon);
        }
      });
  const auto sums = std::make_shared<std::vector<double>>(1, 1.0);
  add("lamb_moments/" + shape, equal(4, size), 6 * bytes,
      [=](kernels::Backend& b, Vectors& v) { b.lamb_moments(adam, {}, all, v[0], v[1], v[2], v[3], *sums); });
  add("lamb_apply/" + shape, equal(3, size), 4 * bytes, [=](kernels::Backend& b, Vectors& v) {
    b.lamb_apply(adam, all, {*sums, *sums}, v[0], v[1], v[2]);
  });
}

const bool registered = [] {
  add_batch_norm({16, 32, 32}, "16x32x32");
  add_batch_norm({32, 16, 16}, "32x16x16");
  add_batch_norm({64, 8, 8}, "64x8x8");
  add_max_pool({20, 24, 24}, "20x24x24");
  add_max_pool({50, 8, 8}, "50x8x8");
  add_element_wise();
  add_layer_norm();
  add_vectors(669706, "670k");   // the MLP 784-512-512-10
  add_vectors(20037642, "20M");  // the MLP 784-4096-4096-10
  return true;
}();

}  // namespace
}  // namespace unisono::bench
