#pragma once

#include <limits>
#include <vector>

#include "unisono/kernels/specs.hpp"

// Pooling in double, one output at a time, on planes [B · C, H, W].

namespace unisono::reference {

/// Calls visit(input index within the plane) for the inputs of one output, in row-major order.
template <typename Visit>
void for_each_tap(const kernels::PoolSpec& spec, Index out_y, Index out_x, const Visit& visit) {
  if (spec.is_adaptive()) {  // pixels whose areas overlap with that of the output's cell, in a common unit
    for (Index y = 0; y < spec.in.height; ++y) {
      for (Index x = 0; x < spec.in.width; ++x) {
        const bool row =
            y * spec.out_height < (out_y + 1) * spec.in.height && (y + 1) * spec.out_height > out_y * spec.in.height;
        const bool column =
            x * spec.out_width < (out_x + 1) * spec.in.width && (x + 1) * spec.out_width > out_x * spec.in.width;
        if (row && column) visit(y * spec.in.width + x);
      }
    }
    return;
  }
  for (Index ky = 0; ky < spec.height; ++ky) {
    for (Index kx = 0; kx < spec.width; ++kx) {
      const Index y = out_y * spec.stride_height - spec.padding_height + ky;
      const Index x = out_x * spec.stride_width - spec.padding_width + kx;
      if (y >= 0 && y < spec.in.height && x >= 0 && x < spec.in.width) visit(y * spec.in.width + x);
    }
  }
}

/// Calls work(output's index, offset of its plane of inputs, its y, its x) for every output.
template <typename Work>
void for_each_output(const kernels::PoolSpec& spec, Index batch, const Work& work) {
  const kernels::Extent out = spec.out();
  for (Index plane = 0, at = 0; plane < batch * spec.in.channels; ++plane) {
    for (Index y = 0; y < out.height; ++y) {
      for (Index x = 0; x < out.width; ++x) work(at++, plane * spec.in.height * spec.in.width, y, x);
    }
  }
}

/// The inputs of one output that it is made of, each with its share: the first of the largest, or all in equal parts.
inline std::vector<std::pair<std::size_t, double>> shares(const kernels::PoolSpec& spec, const std::vector<double>& x,
                                                          Index plane, Index out_y, Index out_x) {
  std::vector<std::pair<std::size_t, double>> inputs;
  for_each_tap(spec, out_y, out_x, [&](Index tap) { inputs.emplace_back(static_cast<std::size_t>(plane + tap), 1.0); });
  if (inputs.empty()) return inputs;
  if (spec.kind == kernels::PoolKind::average) {
    for (auto& [input, share] : inputs) share = 1.0 / static_cast<double>(inputs.size());
    return inputs;
  }
  auto best = inputs.front();
  for (const auto& input : inputs) {
    if (x[input.first] > x[best.first]) best = input;
  }
  return {best};
}

inline std::vector<double> pool_forward(const kernels::PoolSpec& spec, Index batch, const std::vector<double>& x) {
  std::vector<double> y(static_cast<std::size_t>(batch * spec.out().size()));
  for_each_output(spec, batch, [&](Index output, Index plane, Index out_y, Index out_x) {
    for (const auto& [input, share] : shares(spec, x, plane, out_y, out_x)) {
      y[static_cast<std::size_t>(output)] += share * x[input];
    }
  });
  return y;
}

inline std::vector<double> pool_backward(const kernels::PoolSpec& spec, Index batch, const std::vector<double>& x,
                                         const std::vector<double>& dy) {
  std::vector<double> dx(x.size());
  for_each_output(spec, batch, [&](Index output, Index plane, Index out_y, Index out_x) {
    for (const auto& [input, share] : shares(spec, x, plane, out_y, out_x)) {
      dx[input] += share * dy[static_cast<std::size_t>(output)];
    }
  });
  return dx;
}

}  // namespace unisono::reference
