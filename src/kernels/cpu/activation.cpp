#include "cpu/chunks.hpp"
#include "cpu/cpu_backend.hpp"

namespace unisono::kernels::cpu {

void CpuBackend::activation_forward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                    MutableView y) {
  parallel_chunks(settings_.threads, activation_size(extent, batch), [&](Index first, Index length) {
    loops_.activation.forward(activation.kind, activation.number, x.data() + first, y.data() + first, length);
  });
}

void CpuBackend::activation_backward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                     View y, View dy, MutableView dx) {
  const float* const v = activation.reads_input() ? x.data() : y.data();  // none reads neither
  parallel_chunks(settings_.threads, activation_size(extent, batch), [&](Index first, Index length) {
    const float* const part = activation.kind == Activation::none ? nullptr : v + first;
    loops_.activation.backward(activation.kind, activation.number, part, dy.data() + first, dx.data() + first, length);
  });
}

void CpuBackend::add(const Extent& extent, Index batch, View x, MutableView y) {
  parallel_chunks(settings_.threads, activation_size(extent, batch), [&](Index first, Index length) {
    loops_.algebra.axpby(1.0F, x.data() + first, 1.0F, y.data() + first, length);
  });
}

}  // namespace unisono::kernels::cpu
