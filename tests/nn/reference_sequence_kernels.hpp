#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "reference_products.hpp"
#include "reference_sequences.hpp"

namespace unisono::nn {

/// Layers of sequences, in double and row by row; see ReferenceBackend.
class ReferenceSequenceKernels : public kernels::Backend {
 public:
  using Write = kernels::Write;
  using Values = reference::Values;

  void load_tokens(std::span<const std::int32_t> tokens, MutableView x) override {
    std::ranges::transform(tokens, x.begin(), [](std::int32_t token) { return std::bit_cast<float>(token); });
  }

  void embedding_forward(const kernels::EmbeddingSpec& s, Index batch, View tokens, View w, View positions,
                         MutableView y) override {
    for_each(s, batch, tokens, [&](std::size_t row, std::optional<std::size_t> token, Index t, Index c) {
      const std::size_t at = reference::unsigned_of(t * s.units + c);
      const double position = !positions.empty() ? positions[at]
                              : s.sinusoidal     ? reference::sinusoid(t, c, s.units)
                                                 : -0.0;
      y[row] = static_cast<float>((token ? w[*token] : -0.0) + position);
    });
  }
  void embedding_backward(const kernels::EmbeddingSpec& s, Index batch, View tokens, View dy, MutableView dw,
                          MutableView dpositions, Write write) override {
    Values weights(dw.size()), positions(dpositions.size());
    for_each(s, batch, tokens, [&](std::size_t row, std::optional<std::size_t> token, Index t, Index c) {
      if (!dw.empty() && token) weights[*token] += dy[row];
      if (!dpositions.empty()) positions[reference::unsigned_of(t * s.units + c)] += dy[row];
    });
    give(weights, dw, write);
    give(positions, dpositions, write);
  }

  void attention_forward(const kernels::AttentionSpec& s, Index batch, View x, const kernels::DropoutKey& dropout,
                         std::span<const std::uint64_t> examples, MutableView y, MutableView log_sums) override {
    for (Index b = 0; b < batch; ++b) {
      const reference::Attention of(s, values(x, b, s.rows * s.in().size()), dropout, example(dropout, examples, b));
      give(of.forward(), part_of(y, b, s.rows * s.out().size()), Write::overwrite);
      if (!log_sums.empty()) give(of.log_sums(), part_of(log_sums, b, s.rows * s.heads), Write::overwrite);
    }
  }
  void attention_backward(const kernels::AttentionSpec& s, Index batch, View x, View, View,
                          const kernels::DropoutKey& dropout, std::span<const std::uint64_t> examples, View dy,
                          MutableView dx) override {
    for (Index b = 0; b < batch; ++b) {
      const Index size = s.rows * s.in().size();
      const reference::Attention of(s, values(x, b, size), dropout, example(dropout, examples, b));
      give(of.backward(values(dy, b, s.rows * s.out().size())), part_of(dx, b, size), Write::overwrite);
    }
  }

  void head_loss(const kernels::HeadSpec& s, const kernels::HeadInputs& inputs, const kernels::HeadGradients& gradients,
                 TensorGroup* group, kernels::LossSums& sums) override {
    reference::HeadResult result = reference::head_loss(s, values(inputs.x, 0, inputs.rows * s.units),
                                                        values(inputs.w, 0, s.held() * s.units), inputs.labels, group);
    sums.loss += result.loss;
    sums.examples += result.rows;
    sums.correct += result.correct;
    sums.correct_top5 += result.correct_top5;
    for (double& value : result.dx) value *= gradients.scale;
    for (double& value : result.dw) value *= gradients.scale;
    if (!gradients.dx.empty()) give(result.dx, gradients.dx, Write::overwrite);
    if (!gradients.dw.empty()) give(result.dw, gradients.dw, gradients.write);
  }

  void rms_norm_forward(const kernels::NormSpec& s, Index batch, View x, View gamma, MutableView y) override {
    give(reference::rms_norm(values(x, 0, batch * s.extent.size()), values(gamma, 0, s.extent.size()), s.epsilon), y,
         Write::overwrite);
  }
  void rms_norm_backward(const kernels::NormSpec& s, Index batch, View x, View gamma, View dy, MutableView dx,
                         MutableView dgamma, Write write) override {
    const Index size = batch * s.extent.size();
    Values sums(reference::unsigned_of(s.extent.size()));
    const Values result = reference::rms_norm_backward(values(x, 0, size), values(gamma, 0, s.extent.size()), s.epsilon,
                                                       values(dy, 0, size), sums);
    if (!dx.empty()) give(result, dx, Write::overwrite);
    if (!dgamma.empty()) give(sums, dgamma, write);
  }

  void sequence_pool_forward(const kernels::SequencePoolSpec& s, Index batch, View x,
                             std::span<const std::int32_t> lengths, MutableView y) override {
    for (Index b = 0; b < batch; ++b) {
      give(reference::sequence_pool(s, values(x, b, s.rows * s.units), length_of(s, lengths, b)),
           part_of(y, b, s.units), Write::overwrite);
    }
  }
  void sequence_pool_backward(const kernels::SequencePoolSpec& s, Index batch, std::span<const std::int32_t> lengths,
                              View dy, MutableView dx) override {
    for (Index b = 0; b < batch; ++b) {
      give(reference::sequence_pool_backward(s, values(dy, b, s.units), length_of(s, lengths, b)),
           part_of(dx, b, s.rows * s.units), Write::overwrite);
    }
  }

  void gate_forward(Index units, Index batch, View x, MutableView y) override {
    give(reference::gate(values(x, 0, 2 * batch * units), reference::unsigned_of(units)), y, Write::overwrite);
  }
  void gate_backward(Index units, Index batch, View x, View dy, MutableView dx) override {
    give(reference::gate_backward(values(x, 0, 2 * batch * units), reference::unsigned_of(units),
                                  values(dy, 0, batch * units)),
         dx, Write::overwrite);
  }

 private:
  /// Part `number` of a view, in parts of `size` values.
  static Values values(View view, Index number, Index size) {
    const View of = view.subspan(reference::unsigned_of(number * size), reference::unsigned_of(size));
    return {of.begin(), of.end()};
  }
  static MutableView part_of(MutableView view, Index number, Index size) {
    return view.subspan(reference::unsigned_of(number * size), reference::unsigned_of(size));
  }
  static void give(const Values& from, MutableView to, Write write) {
    for (std::size_t i = 0; i < from.size(); ++i) reference::store_sum(to[i], from[i], write);
  }
  static Index length_of(const kernels::SequencePoolSpec& s, std::span<const std::int32_t> lengths, Index b) {
    return lengths.empty() ? s.rows : lengths[reference::unsigned_of(b)];
  }
  static std::uint64_t example(const kernels::DropoutKey& key, std::span<const std::uint64_t> examples, Index b) {
    return key.rate > 0 ? examples[reference::unsigned_of(b)] : 0;
  }

  /// Calls visit(place in y, place in W or nothing, t, c) for all values.
  template <typename Visit>
  static void for_each(const kernels::EmbeddingSpec& s, Index batch, View tokens, Visit visit) {
    for (Index row = 0; row < batch * s.rows; ++row) {
      const Index token = std::bit_cast<std::int32_t>(tokens[reference::unsigned_of(row)]) - s.first;
      for (Index c = 0; c < s.units; ++c) {
        std::optional<std::size_t> weight;
        if (token >= 0 && token < s.vocabulary) weight = reference::unsigned_of(token * s.units + c);
        visit(reference::unsigned_of(row * s.units + c), weight, row % s.rows, c);
      }
    }
  }
};

}  // namespace unisono::nn
