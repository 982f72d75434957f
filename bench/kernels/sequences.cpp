// Attention and the head of a language model. The flops of causal attention are those of the scores that exist.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "harness.hpp"
#include "unisono/kernels/sequence_kernels.hpp"

namespace unisono::bench {
namespace {

/// 2·D flops of each of the products, two forward and five backward, for each score.
double flops_of(const kernels::AttentionSpec& spec, Index batch, int products) {
  const auto rows = static_cast<double>(spec.rows), heads = static_cast<double>(batch * spec.heads);
  const double scores = spec.causal ? rows * (rows + 1) / 2 : rows * rows;
  return 2.0 * products * heads * scores * static_cast<double>(spec.width);
}

void add_attention(const std::string& shape, const kernels::AttentionSpec& spec, Index batch, float rate = 0) {
  const Index rows = batch * spec.rows, in = (rows + 64) * spec.in().size(), out = (rows + 64) * spec.out().size();
  const kernels::DropoutKey dropout{.seed = 1, .rate = rate};
  const std::vector<std::uint64_t> examples(static_cast<std::size_t>(batch), 3);
  add("attention_forward/" + shape, {in, out, (rows + 64) * spec.heads}, in_flops(flops_of(spec, batch, 2)),
      [=](kernels::Backend& b, Vectors& v) { b.attention_forward(spec, batch, v[0], dropout, examples, v[1], v[2]); });
  add("attention_backward/" + shape, {in, out, (rows + 64) * spec.heads, out, in}, in_flops(flops_of(spec, batch, 5)),
      [=](kernels::Backend& b, Vectors& v) {
        std::ranges::fill(v[2], std::log(static_cast<float>(spec.rows)) + 20);  // keeps probabilities small
        b.attention_backward(spec, batch, v[0], v[1], v[2], dropout, examples, v[3], v[4]);
      });
}

/// Forward, then backward: what bench/compare-language-models --attention times.
void add_training_of_attention(const std::string& shape, const kernels::AttentionSpec& spec, Index batch) {
  const Index rows = batch * spec.rows, in = (rows + 64) * spec.in().size(), out = (rows + 64) * spec.out().size();
  add("attention/" + shape, {in, out, (rows + 64) * spec.heads, out, in}, in_flops(flops_of(spec, batch, 7)),
      [=](kernels::Backend& b, Vectors& v) {
        b.attention_forward(spec, batch, v[0], {}, {}, v[1], v[2]);
        b.attention_backward(spec, batch, v[0], v[1], v[2], {}, {}, v[3], v[4]);
      });
}

/// Three products, forward, for the data and for the weights; without gradients one.
void add_head(Index rows, Index units, Index vocabulary) {
  const kernels::HeadSpec spec{units, vocabulary};
  const Index x = (rows + 64) * units;
  const auto labels = std::make_shared<std::vector<std::int32_t>>();
  for (Index i = 0; i < rows; ++i) labels->push_back(static_cast<std::int32_t>(i * 7919 % vocabulary));
  const std::string shape = std::to_string(rows) + "x" + std::to_string(units) + "x" + std::to_string(vocabulary);
  const double flops = 2.0 * static_cast<double>(rows * units) * static_cast<double>(vocabulary);
  for (const bool backward : {false, true}) {
    add((backward ? "head_loss_and_gradients/" : "head_loss/") + shape,
        {x, vocabulary * units, x, backward ? vocabulary * units : 16}, in_flops((backward ? 3 : 1) * flops),
        [=](kernels::Backend& b, Vectors& v) {
          kernels::LossSums sums;
          const MutableView dx = backward ? v[2] : MutableView{}, dw = backward ? v[3] : MutableView{};
          b.head_loss(spec, {rows, v[0], v[1], *labels}, {.scale = 1e-3F, .dx = dx, .dw = dw}, nullptr, sums);
          benchmark::DoNotOptimize(sums);
        });
  }
}

const bool registered = [] {
  add_training_of_attention("1x1024x6x64", {.rows = 1024, .heads = 6, .key_heads = 6, .width = 64}, 1);
  add_training_of_attention("1x4096x6x64", {.rows = 4096, .heads = 6, .key_heads = 6, .width = 64}, 1);
  add_attention("1x1024x6x64", {.rows = 1024, .heads = 6, .key_heads = 6, .width = 64}, 1);
  add_attention("8x128x6x64", {.rows = 128, .heads = 6, .key_heads = 6, .width = 64}, 8);
  add_attention("8x100x6x64", {.rows = 100, .heads = 6, .key_heads = 6, .width = 64}, 8);
  add_attention("1x1024x8x2x64_rotary", {.rows = 1024, .heads = 8, .key_heads = 2, .width = 64, .rotary = 10000}, 1);
  add_attention("1x1024x6x64_all_rows", {.rows = 1024, .heads = 6, .key_heads = 6, .width = 64, .causal = false}, 1);
  add_attention("8x128x6x64_dropout", {.rows = 128, .heads = 6, .key_heads = 6, .width = 64}, 8, 0.1F);
  add_head(1024, 384, 65);
  add_head(1024, 384, 50257);
  return true;
}();

}  // namespace
}  // namespace unisono::bench
