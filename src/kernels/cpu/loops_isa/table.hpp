#pragma once

#include "cpu/loops.hpp"

// Each file of this folder enters its loops into the table.

namespace unisono::kernels::cpu::UNISONO_ISA {

void add_products(Loops& loops);
void add_dots(Loops& loops);
void add_transpose(Loops& loops);
void add_few_examples(Loops& loops);
void add_mask(Loops& loops);
void add_peak(Loops& loops);
void add_pool(Loops& loops);
void add_batch_norm(Loops& loops);
void add_channels_batch_norm(Loops& loops);
void add_winograd(Loops& loops);
void add_depthwise(Loops& loops);
void add_layer_norm(Loops& loops);
void add_pixels_layer_norm(Loops& loops);
void add_channel_gate(Loops& loops);
void add_rms_norm(Loops& loops);
void add_activation(Loops& loops);
void add_gate(Loops& loops);
void add_attention(Loops& loops);
void add_attention_mask(Loops& loops);
void add_decode(Loops& loops);
void add_head(Loops& loops);
void add_dropout(Loops& loops);
void add_loss(Loops& loops);
void add_algebra(Loops& loops);
void add_updates(Loops& loops);
void add_linear_sparse(Loops& loops);
void add_linear_sparse_batches(Loops& loops);
void add_linear_bit_rows(Loops& loops);
void add_linear_dense(Loops& loops);
void add_linear_losses(Loops& loops);
void add_linear_sparse_pass(Loops& loops);
void add_linear_bits(Loops& loops);
void add_linear_dense_pass(Loops& loops);
void add_softmax_in_place(Loops& loops);
void add_skip_gram(Loops& loops);
void add_cbow(Loops& loops);
void add_glove(Loops& loops);
void add_factorize(Loops& loops);
void add_least_squares(Loops& loops);
void add_encoders(Loops& loops);

}  // namespace unisono::kernels::cpu::UNISONO_ISA
