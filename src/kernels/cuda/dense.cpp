// Dense layers by cuBLASLt. Row-major [B, I] is column-major [I][B], so that with x [I][B], W [I][O] and y [O][B]
//   forward   y = Wᵀ x + b      dx = W dy      dw = x dyᵀ, db = Σ over the batch of dy, in the same pass over dy
#include <fmt/format.h>

#include "cuda/cuda_backend.hpp"

namespace unisono::kernels::cuda {

void CudaBackend::dense_forward(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const bool relu = spec.activation == Activation::relu;
  ProductSpec product{.m = spec.units, .n = batch, .k = spec.in.size(), .transpose_a = true};
  ProductMemory memory{.a = rounded(w), .b = x.data(), .d = y.data()};
  memory.workspace = workspace_.take<std::byte>(Products::kWorkspaceBytes);
  product.epilogue = b.empty() ? (relu ? Epilogue::relu : Epilogue::none) : relu ? Epilogue::bias_relu : Epilogue::bias;
  if (products_.can(product)) {
    if (!b.empty()) memory.bias = const_cast<void*>(rounded(b));
    products_.multiply(queue(), product, memory);
    return;
  }
  note_unfused(product, spec, batch, b.empty() ? "ReLU" : relu ? "bias and ReLU" : "bias");
  product.epilogue = Epilogue::none;
  products_.multiply(queue(), product, memory);
  add_bias(batch, spec.units, b, spec.activation, y);
}

void CudaBackend::dense_backward(const DenseSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                 MutableView dx, MutableView dw, MutableView db, Write write) {
  const bool relu = spec.activation == Activation::relu, adds = write == Write::add;
  ProductSpec weights{.m = spec.in.size(), .n = spec.units, .k = batch, .transpose_b = true, .floats = true};
  weights.adds = adds;
  weights.epilogue = Epilogue::bias_gradient;
  // The pass that applies a ReLU's mask also sums dy.
  const bool sums_fit = !relu && !adds && !db.empty() && !dw.empty();
  const bool sums_in_product = sums_fit && products_.can(weights);
  if (sums_fit && !sums_in_product) note_unfused(weights, spec, batch, "gradient of the bias");
  mask_and_sum(batch, spec.units, relu ? y : View{}, dy, sums_in_product ? MutableView{} : db, write);
  void* const workspace = workspace_.take<std::byte>(Products::kWorkspaceBytes);
  if (!dw.empty()) {
    if (!sums_in_product) weights.epilogue = Epilogue::none;
    products_.multiply(queue(), weights,
                       {.a = x.data(),
                        .b = dy.data(),
                        .d = dw.data(),
                        .bias = sums_in_product ? db.data() : nullptr,
                        .workspace = workspace});
  }
  if (!dx.empty()) {
    products_.multiply(queue(), {.m = spec.in.size(), .n = batch, .k = spec.units},
                       {.a = rounded(w), .b = dy.data(), .d = dx.data(), .workspace = workspace});
  }
}

void CudaBackend::note_unfused(const ProductSpec& product, const DenseSpec& spec, Index batch, const char* epilogue) {
  ++unfused_products_;
  if (!unfused_.insert(product).second) return;
  device_.fallbacks().note(
      Fallback::product,
      fmt::format("cuBLASLt has no {} product for a dense layer of {} inputs and {} units with a batch of {} that "
                  "includes the {}: another kernel computes it",
                  name_of(precision_), spec.in.size(), spec.units, batch, epilogue));
}

}  // namespace unisono::kernels::cuda
