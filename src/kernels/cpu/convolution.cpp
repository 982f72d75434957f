// Convolutions by the method that method_of says for their shape. Where a side of the layer has another layout than
// the method, it is converted here: at the edges of a network's images, not between its convolutions.
#include <cassert>

#include "cpu/convolution.hpp"
#include "cpu/cpu_backend.hpp"

namespace unisono::kernels::cpu {
namespace {

/// The layout in which a method computes. \param own that of the layer's inputs
Innermost layout_of(ConvolutionMethod method, Innermost own) {
  if (method == ConvolutionMethod::depthwise) return own;
  return method == ConvolutionMethod::examples ? Innermost::examples : Innermost::channels;
}

}  // namespace

const float* CpuBackend::prepared(View w, Index floats, float* scratch, const std::function<void(float* to)>& make) {
  if (!fixed_) {
    make(scratch);
    return scratch;
  }
  const auto [entry, is_new] = prepared_.try_emplace(w.data());
  if (is_new) {
    entry->second = Buffer(floats);
    make(entry->second.data());
  }
  assert(entry->second.size() == floats);
  return entry->second.data();
}

void CpuBackend::convolution_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const ConvolutionMethod method = method_of(spec, batch, settings_.methods);
  const Innermost layout = layout_of(method, innermost(spec.in, batch));
  const View from = in_layout(layout, spec.in, batch, x, x_copy_);
  const MutableView to = room_in_layout(layout, spec.out(), batch, y, y_copy_);
  switch (method) {
    case ConvolutionMethod::examples:
      examples_forward(spec, batch, from, w, b, to);
      break;
    case ConvolutionMethod::channels:
      channels_forward(spec, batch, from, w, b, to);
      break;
    case ConvolutionMethod::winograd:
      winograd_forward(spec, batch, from, w, b, to);
      break;
    case ConvolutionMethod::depthwise:
      depthwise_correlate(spec, /*backward=*/false, batch, from, w, b, to);
      break;
  }
  settle(layout, spec.out(), batch, to, y);
}

void CpuBackend::convolution_backward(const ConvolutionSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                      MutableView dx, MutableView dw, MutableView db, Write write) {
  const ConvolutionMethod method = method_of(spec, batch, settings_.methods);
  const Innermost layout = layout_of(method, innermost(spec.in, batch));
  View mask = spec.activation == Activation::relu ? y : View{};
  // The weights' gradient with the examples innermost masks dy and sums it for the bias on its way.
  const bool on_the_way =
      method == ConvolutionMethod::examples && !dw.empty() && innermost(spec.out(), batch) == layout;
  if (!on_the_way) {
    mask_and_sum(spec.out(), batch, mask, dy, db, write);
    mask = {};
    db = {};
  }
  const MutableView masked = room_in_layout(layout, spec.out(), batch, dy, y_copy_);
  if (masked.data() != dy.data()) convert(layout, spec.out(), batch, dy, masked);
  if (!dw.empty()) {
    const View from = in_layout(layout, spec.in, batch, x, x_copy_);
    switch (method) {
      case ConvolutionMethod::examples:
        examples_backward_weights(spec, batch, from, mask, masked, dw, db, write);
        break;
      case ConvolutionMethod::channels:
        channels_backward_weights(spec, batch, from, masked, dw, write);
        break;
      case ConvolutionMethod::winograd:
        winograd_backward_weights(spec, batch, from, masked, dw, write);
        break;
      case ConvolutionMethod::depthwise:
        depthwise_backward_weights(spec, batch, from, masked, dw, write);
        break;
    }
  }
  if (dx.empty()) return;
  const MutableView to = room_in_layout(layout, spec.in, batch, dx, dx_copy_);
  switch (method) {
    case ConvolutionMethod::examples:
      examples_backward_data(spec, batch, w, masked, to);
      break;
    case ConvolutionMethod::channels:
      channels_backward_data(spec, batch, w, masked, to);
      break;
    case ConvolutionMethod::winograd:
      winograd_backward_data(spec, batch, w, masked, to);
      break;
    case ConvolutionMethod::depthwise:
      depthwise_correlate(spec, /*backward=*/true, batch, masked, w, {}, to);
      break;
  }
  settle(layout, spec.in, batch, to, dx);
}

std::vector<Index> element_order(const Axis& axis) {
  std::vector<Index> order;
  for (Index residue = 0; residue < std::min(axis.stride, axis.kernel); ++residue) {
    const Index last = residue + (axis.kernel - 1 - residue) / axis.stride * axis.stride;
    for (Index k = last; k >= residue; k -= axis.stride) order.push_back(k);
  }
  return order;
}

std::vector<std::vector<Tap>> taps_of_outputs(const Axis& axis) {
  std::vector<std::vector<Tap>> all;
  for (Index output = 0; output < axis.out; ++output) {
    const Range elements = axis.elements(output);
    auto& taps = all.emplace_back();
    for (Index k = elements.first; k < elements.end; ++k) taps.push_back({k, axis.input(output, k), 0});
  }
  return all;
}

std::vector<std::vector<Tap>> taps_of_inputs(const Axis& axis) {
  const std::vector<Index> order = element_order(axis);
  std::vector<std::vector<Tap>> all;
  for (Index input = 0; input < axis.in; ++input) {
    auto& taps = all.emplace_back();
    for (std::size_t place = 0; place < order.size(); ++place) {
      const Index distance = input + axis.padding - order[place] * axis.dilation;
      if (distance < 0 || distance % axis.stride != 0 || distance / axis.stride >= axis.out) continue;
      taps.push_back({order[place], distance / axis.stride, static_cast<Index>(place)});
    }
  }
  return all;
}

}  // namespace unisono::kernels::cpu
