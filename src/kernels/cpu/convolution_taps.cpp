#include "cpu/convolution.hpp"

namespace unisono::kernels::cpu {

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
