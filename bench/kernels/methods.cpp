// Dense layers and convolutions on one core at several batches: each method of method_of, with each instruction set.
// blis.cpp has the same products by BLIS alone.
#include <memory>

#include "cpu/cpu_backend.hpp"
#include "harness.hpp"
#include "shapes.hpp"

namespace unisono::bench {
namespace {

using kernels::cpu::CpuBackend;
using kernels::cpu::CpuSettings;

/// A layer's floats on a backend: x, w, b, y or dy, dx, dw, db.
template <typename Spec>
std::vector<Index> sizes_of(const CpuBackend& backend, const Spec& spec, const kernels::Extent& out, Index weights,
                            Index batch) {
  const Index x = backend.activation_size(spec.in, batch), y = backend.activation_size(out, batch);
  return {x, weights, out.channels, y, x, weights, out.channels};
}

/// Times the three passes of a layer.
template <typename Spec, typename Forward, typename Backward>
void add_passes(const std::string& name, const CpuSettings& settings, const Spec& spec, const kernels::Extent& out,
                Index weights, Index batch, double flops, const Forward& forward, const Backward& backward) {
  using Pass = std::function<void(CpuBackend&, Vectors&)>;
  const auto add_pass = [&](const std::string& pass, const Pass& call) {
    benchmark::RegisterBenchmark((pass + "/" + name).c_str(), [=](benchmark::State& state) {
      CpuBackend backend(settings);
      Vectors v(sizes_of(backend, spec, out, weights, batch));
      call(backend, v);  // lets it allocate its scratch
      for (auto _ : state) call(backend, v);
      report(state, in_flops(flops), 1);
    });
  };
  constexpr auto kOverwrite = kernels::Write::overwrite;
  add_pass("forward", [=](CpuBackend& b, Vectors& v) { (b.*forward)(spec, batch, v[0], v[1], v[2], v[3]); });
  add_pass("forward_of_fixed_weights", [=](CpuBackend& b, Vectors& v) {  // as in predictions
    b.fix_parameters();
    (b.*forward)(spec, batch, v[0], v[1], v[2], v[3]);
  });
  add_pass("backward_data", [=](CpuBackend& b, Vectors& v) {
    (b.*backward)(spec, batch, v[0], v[1], v[3], v[3], v[4], {}, {}, kOverwrite);
  });
  add_pass("backward_weights", [=](CpuBackend& b, Vectors& v) {
    (b.*backward)(spec, batch, v[0], v[1], v[3], v[3], {}, v[5], v[6], kOverwrite);
  });
}

void add_dense(const DenseShape& shape, Index batch, kernels::cpu::InstructionSet set) {
  const auto [in, units] = shape;
  const kernels::DenseSpec spec{{in, 1, 1}, units};
  add_passes("dense/" + std::to_string(units) + "x" + std::to_string(in) + "/batch:" + std::to_string(batch) + "/" +
                 name_of(set),
             {.instruction_set = set}, spec, {units, 1, 1}, in * units, batch,
             2.0 * static_cast<double>(batch * in * units), &CpuBackend::dense_forward, &CpuBackend::dense_backward);
}

void add_convolution(const NamedConvolution& layer, Index batch, kernels::cpu::InstructionSet set) {
  using kernels::cpu::ConvolutionMethod, kernels::cpu::Innermost, kernels::cpu::Methods, kernels::cpu::method_of;
  const Index weights = layer.spec.channels * (layer.spec.in.channels / layer.spec.groups) * layer.spec.kernel_height *
                        layer.spec.kernel_width;
  const auto add_method = [&](const std::string& method, const kernels::ConvolutionSpec& spec, const Methods& methods) {
    add_passes("convolution/" + layer.name + "/batch:" + std::to_string(batch) + "/" + method + "/" + name_of(set),
               {.instruction_set = set, .methods = methods}, spec, spec.out(), weights, batch, flops_of(spec, batch),
               &CpuBackend::convolution_forward, &CpuBackend::convolution_backward);
  };
  add_method("examples_innermost", layer.spec, {.innermost = Innermost::examples});
  add_method("channels_innermost", layer.spec, {.innermost = Innermost::channels, .winograd = false});
  if (method_of(layer.spec, batch, {}) != ConvolutionMethod::winograd) return;
  kernels::ConvolutionSpec spec = layer.spec;
  add_method("winograd_2x2", spec, {});
  spec.winograd = kernels::Winograd::tiles_4x4;
  add_method("winograd_4x4", spec, {});
}

const bool registered = [] {
  for (const Index batch : kBatches) {
    for (const auto set : kernels::cpu::available_instruction_sets()) {
      for (const DenseShape& shape : kDenseShapes) add_dense(shape, batch, set);
      for (const NamedConvolution& layer : convolutions()) add_convolution(layer, batch, set);
    }
  }
  return true;
}();

}  // namespace
}  // namespace unisono::bench
