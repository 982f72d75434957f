#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "layers.hpp"
#include "unisono/base/random.hpp"
#include "unisono/nn/loss.hpp"
#include "unisono/nn/network.hpp"
#include "value_of.hpp"

namespace unisono::nn {

using Ranges = std::vector<std::pair<Index, Index>>;

/// Data and settings of a small network; what a Trial runs.
struct TrialSettings {
  std::vector<LayerSettings> layers;
  kernels::Extent in;
  Index batch = 3;
  std::string loss = "mean_squared_error";
  double label_smoothing = 0;
  bool steps_together = true;
  std::uint64_t data = 0;  ///< other data for another number
  Index classes = 0;       ///< of labels; 0: one an output, where the loss wants labels
  bool weighted = false;   ///< whether the examples have weights
  std::vector<std::string> freeze = {};
  bool recomputes_blocks = false;
  kernels::Winograd winograd = kernels::Winograd::tiles_2x2;
  Index rows = 1;  ///< of an example
  /// Above 0: the inputs are tokens. A language model's head gives the loss, or, where there are `classes`, the inputs
  /// are texts of different lengths.
  Index vocabulary = 0;

  bool classifies_texts() const { return vocabulary > 0 && classes > 0; }

  Shape shape() const { return {.extent = in, .rows = rows, .vocabulary = vocabulary}; }
};

/// A language model on sequences of `rows` tokens.
inline TrialSettings language_model(std::vector<LayerSettings> layers, Index rows, Index vocabulary, Index batch = 2) {
  return {.layers = std::move(layers),
          .in = {1},
          .batch = batch,
          .loss = "softmax_cross_entropy",
          .rows = rows,
          .vocabulary = vocabulary};
}

/// A classifier of texts of up to `rows` tokens.
inline TrialSettings text_classifier(std::vector<LayerSettings> layers, Index rows, Index vocabulary, Index classes,
                                     Index batch = 3) {
  TrialSettings settings = language_model(std::move(layers), rows, vocabulary, batch);
  settings.classes = classes;
  return settings;
}

/// Tokens of examples [first, last), each of which is to predict the next; one in seven rows has no label. Texts with
/// classes have lengths instead, and padding.
struct TrialTokens {
  TrialTokens(const TrialSettings& s, Index first, Index last) {
    for (Index b = first; b < last; ++b) {
      RandomStream random(10 * s.data + 3, Purpose::test, static_cast<std::uint64_t>(b));
      const auto draw = [&] {
        return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(s.vocabulary)));
      };
      tokens.push_back(draw());
      for (Index t = 0; t < s.rows; ++t) {
        row_numbers.push_back(static_cast<std::uint64_t>((100 + b) * s.rows + t));
        const std::int32_t next = draw();
        labels.push_back((b * s.rows + t) % 7 == 5 ? -1 : next);
        if (t + 1 < s.rows) tokens.push_back(next);
      }
      if (s.classifies_texts()) pad(s, b);
    }
  }

  /// Ends the text that was drawn last. \param b its number
  void pad(const TrialSettings& s, Index b) {
    lengths.push_back(static_cast<std::int32_t>(1 + (5 * b + 2) % s.rows));
    std::fill(tokens.end() - (s.rows - lengths.back()), tokens.end(), kernels::kPaddingToken);
  }

  std::vector<std::int32_t> tokens, labels, lengths;
  std::vector<std::uint64_t> row_numbers;
};

/// Values that are as good as any, in canonical order: gains in [½, 3/2], variances likewise, weights of variance
/// 1/fan_in, the rest in ±½.
inline void fill_generic(const ParameterLayout& layout, MutableView vector, std::uint64_t seed = 0) {
  std::uint64_t number = 0;
  for (const Block& block : layout.blocks()) {
    RandomStream random(seed, Purpose::test, 1000 + number++);
    const bool gain = block.name.ends_with("gamma") || block.name.ends_with("variance");
    const float bound = block.role == Role::weight ? std::sqrt(3.0F / static_cast<float>(block.fan_in)) : 0.5F;
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    for (float& value : values) value = (gain ? 1 : 0) + random.uniform(-bound, bound);
    from_canonical(block, values, part(vector, block));
  }
}

/// Sets every block's numbers, and leaves what lies between blocks.
inline void fill_blocks(const ParameterLayout& layout, MutableView vector, float value) {
  for (const Block& block : layout.blocks()) std::ranges::fill(part(vector, block), value);
}

/// All blocks' values in canonical order, one after the other.
inline std::vector<float> canonical(const ParameterLayout& layout, View vector) {
  std::vector<float> all;
  for (const Block& block : layout.blocks()) {
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    to_canonical(block, part(vector, block), values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline std::vector<float> generic_values(std::size_t count, std::uint64_t seed, float low = -1, float high = 1) {
  RandomStream random(seed, Purpose::test);
  std::vector<float> values(count);
  for (float& value : values) value = random.uniform(low, high);
  return values;
}

/// A network with its loss, parameters, data and memory, ready to run. Its workspace, and all blocks of g, are full of
/// NaN at the start.
struct Trial {
  Trial(kernels::Backend& b, const TrialSettings& s, Reducer& r) : Trial(b, s, r, 0, s.batch) {}
  /// Examples [first, last) of the batch of s.batch examples.
  Trial(kernels::Backend& b, const TrialSettings& s, Reducer& r, Index first, Index last)
      : backend(b),
        reducer(r),
        network({.loss = value_of(s.loss, kLossKinds),
                 .label_smoothing = s.label_smoothing,
                 .layers = s.layers,
                 .winograd = s.winograd},
                s.shape(), b,
                {.steps_together = s.steps_together, .freeze = s.freeze, .recomputes_blocks = s.recomputes_blocks}),
        batch(last - first),
        theta(network.parameters().size()),
        statistics(network.statistics().size()),
        gradient(network.parameters().size()) {
    const Index outputs = network.out().extent.size();
    const bool labels_wanted = s.loss == "softmax_cross_entropy" || s.loss == "multiclass_hinge" || s.classes > 0;
    const Index classes = s.classes > 0 ? s.classes : outputs;
    loss =
        make_loss({value_of(s.loss, kLossKinds), s.label_smoothing, {}}, network.out(),
                  {labels_wanted ? classes : 0, labels_wanted ? 0 : outputs, s.classifies_texts() ? 0 : s.vocabulary});
    const auto slice = [&](std::vector<float> all, Index size) {
      return std::vector<float>(all.begin() + first * size, all.begin() + last * size);
    };
    features = slice(generic_values(static_cast<std::size_t>(s.batch * s.in.size()), 10 * s.data + 1), s.in.size());
    targets = slice(generic_values(static_cast<std::size_t>(s.batch * outputs), 10 * s.data + 2, 0, 1), outputs);
    for (Index i = first; i < last; ++i) {
      labels.push_back(static_cast<std::int32_t>((7 * i + 1) % classes));
      examples.push_back(static_cast<std::uint64_t>(100 + i));
      if (s.weighted) weights.push_back(0.25F + static_cast<float>(5 * i % 7) / 2);
    }
    if (s.vocabulary > 0) {
      const TrialTokens drawn(s, first, last);
      tokens = drawn.tokens;
      row_numbers = drawn.row_numbers;
      lengths = drawn.lengths;
      if (!s.classifies_texts()) labels = drawn.labels;
    }
    scale = 1.0F / static_cast<float>(s.batch * (s.classifies_texts() ? 1 : s.rows));
    fill_generic(network.parameters(), theta.view());
    fill_generic(network.statistics(), statistics.view());
    fill_blocks(network.parameters(), gradient.view(), std::numeric_limits<float>::quiet_NaN());
  }

  Pass pass(bool training) {
    Pass pass{backend, reducer, theta.view(), statistics.view(), training, batch, examples, epoch, seed};
    pass.row_numbers = row_numbers;
    pass.lengths = lengths;
    return pass;
  }
  Inputs inputs() const { return {.values = features, .tokens = tokens}; }
  Workspace workspace(bool training) {
    plan = network.plan(batch, training);
    memory = Buffer(plan.floats);
    std::fill(memory.view().begin(), memory.view().end(), std::numeric_limits<float>::quiet_NaN());
    return {plan, memory.view()};
  }
  Targets wanted() const { return loss_takes_labels() ? Targets{labels, {}} : Targets{{}, targets}; }
  bool loss_takes_labels() const { return loss->classes() > 0; }

  /// scale · Σ loss of a training pass.
  double training_loss() {
    if (network.gives_loss()) {
      Buffer unused(gradient.size());
      return loss_and_gradient_in(unused.view(), kernels::Write::overwrite, {});
    }
    const Workspace space = workspace(true);
    kernels::LossSums sums;
    loss->apply(backend, batch, network.forward(pass(true), inputs(), space), wanted(), {0, weights}, {}, sums);
    return sums.loss * scale;
  }
  /// Forward and backward; g in `gradient`. \return scale · Σ loss
  double loss_and_gradient(kernels::Write write = kernels::Write::overwrite, GradientReady ready = {}) {
    return loss_and_gradient_in(gradient.view(), write, ready);
  }
  double loss_and_gradient_in(MutableView g, kernels::Write write, GradientReady ready) {
    const Workspace space = workspace(true);
    kernels::LossSums sums;
    const LossTerms terms{.labels = labels, .scale = scale, .sums = sums};
    Pass now = pass(true);
    now.loss = &terms;
    const View outputs = network.forward(now, inputs(), space);
    if (batch > 0 && !network.gives_loss())
      loss->apply(backend, batch, outputs, wanted(), {scale, weights}, network.output_gradient(space), sums);
    network.backward(now, space, g, write, ready);
    return sums.loss * scale;
  }
  /// scale · Σ loss of an evaluation.
  double evaluate() {
    const Workspace space = workspace(false);
    kernels::LossSums sums;
    const LossTerms terms{.labels = labels, .sums = sums};
    Pass now = pass(false);
    now.loss = &terms;
    const View outputs = network.forward(now, inputs(), space);
    if (!network.gives_loss()) loss->apply(backend, batch, outputs, wanted(), {0, weights}, {}, sums);
    return sums.loss * scale;
  }
  /// Outputs in canonical order.
  std::vector<float> outputs(bool training) {
    const Workspace space = workspace(training);
    const View stored = network.forward(pass(training), inputs(), space);
    const Index all_rows = batch * network.out().rows;
    std::vector<float> values(static_cast<std::size_t>(all_rows * network.out().extent.size()));
    backend.store(network.out().extent, all_rows, stored, values);
    return values;
  }
  std::vector<float> canonical_gradient() { return canonical(network.parameters(), gradient.view()); }

  kernels::Backend& backend;
  Reducer& reducer;
  Network network;
  std::unique_ptr<Loss> loss;
  Index batch;
  Buffer theta, statistics, gradient, memory;
  WorkspacePlan plan;
  std::vector<float> features, targets, weights;
  std::vector<std::int32_t> labels, tokens, lengths;
  std::vector<std::uint64_t> examples, row_numbers;
  float scale = 1;
  std::int64_t epoch = 0;
  std::uint64_t seed = 1;
};

}  // namespace unisono::nn
