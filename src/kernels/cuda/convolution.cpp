// Convolutions by cuDNN; the bias, the activation and their gradients by kernels of our own where cuDNN cannot fuse
// them.
#include "cuda/cuda_backend.hpp"

namespace unisono::kernels::cuda {

void CudaBackend::convolution_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Extent out = spec.out();
  ConvolutionMemory memory{.x = x.data(), .w = rounded(w), .y = y.data()};
  const bool fused = !b.empty() && convolutions_.can_fuse(spec, batch);
  const ConvolutionPass pass = fused ? ConvolutionPass::forward_fused : ConvolutionPass::forward;
  if (fused) memory.b = rounded(b);
  void* const workspace =
      workspace_.take<std::byte>(static_cast<Index>(convolutions_.workspace_bytes(pass, spec, batch)));
  convolutions_.run(queue(), pass, spec, batch, memory, workspace);
  if (!fused) add_bias(batch * out.height * out.width, out.channels, b, spec.activation, y);
}

void CudaBackend::convolution_backward(const ConvolutionSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                       MutableView dx, MutableView dw, MutableView db, Write write) {
  const Extent out = spec.out();
  const bool relu = spec.activation == Activation::relu;
  mask_and_sum(batch * out.height * out.width, out.channels, relu ? y : View{}, dy, db, write);
  if (!dw.empty()) convolution_weights(spec, batch, x, dy, dw, write);
  if (dx.empty()) return;
  const auto bytes = static_cast<Index>(convolutions_.workspace_bytes(ConvolutionPass::data, spec, batch));
  convolutions_.run(queue(), ConvolutionPass::data, spec, batch, {.x = dx.data(), .w = rounded(w), .y = dy.data()},
                    workspace_.take<std::byte>(bytes));
}

/// Where cuDNN has no kernel with a result in floats that is wanted, or dw must be added to, its result goes to a
/// temporary buffer and is converted from there.
void CudaBackend::convolution_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                      Write write) {
  const bool floats = convolutions_.can(ConvolutionPass::weights, spec, batch);
  const ConvolutionPass pass = floats ? ConvolutionPass::weights : ConvolutionPass::weights_small;
  const bool direct = floats && write == Write::overwrite;
  const auto size = static_cast<Index>(dw.size());
  float* const result = direct ? dw.data() : values_.take<float>(size);
  const auto bytes = static_cast<Index>(convolutions_.workspace_bytes(pass, spec, batch));
  convolutions_.run(queue(), pass, spec, batch, {.x = x.data(), .w = result, .y = dy.data()},
                    workspace_.take<std::byte>(bytes));
  if (!direct) take_gradient(result, floats, dw, write);
}

}  // namespace unisono::kernels::cuda
