#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {

Loops make_loops() {
  Loops loops{};
#if defined(__AVX512F__)
  loops.name = "AVX-512";
#elif defined(__AVX2__)
  loops.name = "AVX2";
#else
  loops.name = "portable";
#endif
  add_products(loops);
  add_dots(loops);
  add_transpose(loops);
  add_few_examples(loops);
  add_mask(loops);
  add_peak(loops);
  add_pool(loops);
  add_batch_norm(loops);
  add_channels_batch_norm(loops);
  add_winograd(loops);
  add_depthwise(loops);
  add_layer_norm(loops);
  add_pixels_layer_norm(loops);
  add_channel_gate(loops);
  add_rms_norm(loops);
  add_activation(loops);
  add_gate(loops);
  add_attention(loops);
  add_attention_mask(loops);
  add_decode(loops);
  add_head(loops);
  add_dropout(loops);
  add_loss(loops);
  add_algebra(loops);
  add_updates(loops);
  add_linear_sparse(loops);
  add_linear_sparse_batches(loops);
  add_linear_bit_rows(loops);
  add_linear_dense(loops);
  add_linear_losses(loops);
  add_linear_sparse_pass(loops);
  add_linear_bits(loops);
  add_linear_dense_pass(loops);
  add_softmax_in_place(loops);
  add_skip_gram(loops);
  add_cbow(loops);
  add_glove(loops);
  add_factorize(loops);
  add_least_squares(loops);
  add_encoders(loops);
  return loops;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
