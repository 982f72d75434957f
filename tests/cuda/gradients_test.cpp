// Gradients of whole networks on the device against central differences of losses on the device.
#include <catch2/catch.hpp>
#include <optional>

#include "nn/network_trial.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono {
namespace {

/// A network in the device's memory.
class DeviceTrial {
 public:
  explicit DeviceTrial(const nn::TrialSettings& settings)
      : backend_(kernels::make_cuda_backend(0, kernels::Precision::fp32)),
        network_({value_of(settings.loss, nn::kLossKinds), 0, settings.layers}, settings.shape(), *backend_,
                 {.recomputes_blocks = settings.recomputes_blocks}),
        batch_(settings.batch),
        theta_(network_.parameters().size(), backend_->memory()),
        statistics_(network_.statistics().size(), backend_->memory()),
        gradient_(theta_.size(), backend_->memory()),
        features_(nn::generic_values(static_cast<std::size_t>(batch_ * settings.in.size()), 1)) {
    const Index outputs = network_.out().extent.size();
    const bool labels = settings.loss == "softmax_cross_entropy";
    loss_ = nn::make_loss(
        {value_of(settings.loss, nn::kLossKinds), 0, {}}, network_.out(),
        {labels ? outputs : 0, labels ? 0 : outputs, settings.classifies_texts() ? 0 : settings.vocabulary});
    targets_ = nn::generic_values(labels ? 0 : static_cast<std::size_t>(batch_ * outputs), 2, 0, 1);
    for (Index i = 0; i < batch_; ++i) {
      if (labels) labels_.push_back(static_cast<std::int32_t>((7 * i + 1) % outputs));
      examples_.push_back(static_cast<std::uint64_t>(100 + i));
    }
    scale_ = 1.0F / static_cast<float>(batch_ * (settings.classifies_texts() ? 1 : settings.rows));
    if (settings.vocabulary > 0) {
      tokens_.emplace(settings, 0, batch_);
      if (!settings.classifies_texts()) labels_ = tokens_->labels;
    }
    PlainValues theta(backend_->memory(), theta_.view()), statistics(backend_->memory(), statistics_.view());
    nn::fill_generic(network_.parameters(), theta.view());
    nn::fill_generic(network_.statistics(), statistics.view());
    theta.put_back();
    statistics.put_back();
  }

  const ParameterLayout& layout() const { return network_.parameters(); }
  std::vector<float> theta() { return values(theta_); }
  std::vector<float> gradient() {
    run(true);
    return values(gradient_);
  }
  /// The mean loss of a training pass with these parameters.
  double loss(const std::vector<float>& theta) {
    backend_->memory().copy(theta, theta_.view());
    return run(false);
  }

 private:
  std::vector<float> values(const Buffer& there) {
    std::vector<float> copy(static_cast<std::size_t>(there.size()));
    backend_->memory().copy(there.view(), copy);
    return copy;
  }
  double run(bool backward) {
    nn::Pass pass{*backend_, reducer_, theta_.view(), statistics_.view(), true, batch_, examples_, 0, 1};
    const nn::WorkspacePlan plan = network_.plan(batch_, true);
    Buffer memory(plan.floats, backend_->memory());
    const nn::Workspace space{plan, memory.view()};
    kernels::LossSums sums;
    const nn::LossTerms terms{.labels = labels_, .scale = scale_, .sums = sums};
    pass.loss = &terms;
    Inputs inputs{.values = features_};
    if (tokens_) {
      pass.row_numbers = tokens_->row_numbers;
      pass.lengths = tokens_->lengths;
      inputs.tokens = tokens_->tokens;
    }
    const View outputs = network_.forward(pass, inputs, space);
    if (!network_.gives_loss()) {
      loss_->apply(*backend_, batch_, outputs, {labels_, targets_}, scale_,
                   backward ? network_.output_gradient(space) : MutableView{}, sums);
    }
    if (backward || network_.gives_loss()) {
      network_.backward(pass, space, gradient_.view(), kernels::Write::overwrite, {});
    }
    backend_->submit();
    backend_->collect(sums);
    return sums.loss * scale_;
  }

  std::unique_ptr<kernels::Backend> backend_;
  LocalReducer reducer_;
  nn::Network network_;
  std::unique_ptr<nn::Loss> loss_;
  Index batch_;
  Buffer theta_, statistics_, gradient_;
  std::vector<float> features_, targets_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint64_t> examples_;
  std::optional<nn::TrialTokens> tokens_;
  float scale_ = 1;
};

/// Each block's gradient along random directions v of length 1, against
///     (8 (L(θ + hv) − L(θ − hv)) − (L(θ + 2hv) − L(θ − 2hv))) / 12h,
/// whose own error is h⁴/30 of a fifth derivative, some 10⁻⁷, and what the four losses' roundings come to: some 64
/// operations in a row of 2⁻²⁴ each, 18/12h of that.
void check(const nn::TrialSettings& settings) {
  constexpr double h = 1.0 / 32;
  constexpr int kDirections = 4;
  DeviceTrial trial(settings);
  const std::vector<float> theta = trial.theta(), gradient = trial.gradient();
  const double allowed = 18 / (12 * h) * 64 * 0x1p-24 * std::max(1.0, trial.loss(theta));
  double largest = 0;
  for (const Block& block : trial.layout().blocks()) {
    for (int direction = 0; direction < kDirections; ++direction) {
      INFO(block.name << ", direction " << direction);
      const std::vector<float> v = nn::generic_values(static_cast<std::size_t>(block.size()), 77 + direction);
      double length = 0, slope = 0;
      const auto first = static_cast<std::size_t>(block.offset);
      for (std::size_t i = 0; i < v.size(); ++i) length += static_cast<double>(v[i]) * v[i];
      length = std::sqrt(length);
      for (std::size_t i = 0; i < v.size(); ++i) slope += static_cast<double>(gradient[first + i]) * v[i] / length;
      const auto loss_at = [&](double step) {
        std::vector<float> moved = theta;
        for (std::size_t i = 0; i < v.size(); ++i) moved[first + i] += static_cast<float>(step * v[i] / length);
        return trial.loss(moved);
      };
      const double difference = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      CHECK(std::abs(difference - slope) < allowed);
      largest = std::max(largest, std::abs(slope));
    }
  }
  CHECK(largest > 50 * allowed);  // there is something to see
}

/// What is computed anew for the backward pass has the bits of what is kept.
void check_with_recomputation(nn::TrialSettings settings) {
  check(settings);
  const std::vector<float> kept = DeviceTrial(settings).gradient();
  settings.recomputes_blocks = true;
  CHECK(DeviceTrial(settings).gradient() == kept);
}

TEST_CASE("gradients on the device are those of central differences", "[gpu]") {
  const nn::LayerSettings flatten = nn::layer("flatten"), tanh = nn::layer("tanh"), norm = nn::layer("batch_norm");
  SECTION("dense layers") { check({.layers = {nn::dense(7), nn::layer("gelu"), nn::dense(3)}, .in = {5, 1, 1}}); }
  SECTION("activations") {
    check({.layers = {nn::dense(7), nn::layer("silu"), nn::dense(6), nn::layer("softplus"), nn::dense(3)},
           .in = {5, 1, 1}});
  }
  SECTION("classes") {
    check({.layers = {nn::dense(9), nn::layer("sigmoid"), nn::layer("layer_norm"), nn::dense(4)},
           .in = {6, 1, 1},
           .batch = 5,
           .loss = "softmax_cross_entropy"});
  }
  SECTION("images") {
    check({.layers = {nn::convolution(4, {3}, {1}), norm, tanh, nn::pool("average_pool", {2}), nn::dropout(0.3),
                      flatten, nn::dense(3)},
           .in = {2, 6, 6},
           .batch = 4,
           .loss = "softmax_cross_entropy"});
  }
  SECTION("GPT") {
    const nn::LayerSettings attention = nn::layer("attention", "heads = 2, dropout = 0.2");
    check_with_recomputation(
        nn::language_model({nn::layer("embedding", "units = 6"), nn::residual({nn::layer("layer_norm"), attention}),
                            nn::residual({nn::dense(8), nn::layer("gelu_tanh"), nn::dense(6), nn::dropout(0.2)}),
                            nn::layer("layer_norm"), nn::layer("unembedding", "tied = true")},
                           7, 9));
  }
  SECTION("Llama") {
    const nn::LayerSettings attention =
        nn::layer("attention", "heads = 4, key_heads = 2, head_units = 2, rotary = true");
    check(nn::language_model(
        {nn::layer("embedding", "units = 6, positions = 'none'"), nn::residual({nn::layer("rms_norm"), attention}),
         nn::residual({nn::layer("rms_norm"), nn::layer("swiglu", "units = 5"), nn::dense(6)}), nn::layer("rms_norm"),
         nn::layer("unembedding")},
        7, 9));
  }
  SECTION("classifiers of texts") {
    for (const char* pool : {"pool = 'last'", "pool = 'mean'"}) {
      const nn::LayerSettings attention = nn::layer("attention", "heads = 2, dropout = 0.2");
      check(nn::text_classifier(
          {nn::layer("embedding", "units = 6"), nn::residual({nn::layer("layer_norm"), attention}),
           nn::layer("layer_norm"), nn::layer("sequence_pool", pool), nn::dropout(0.2), nn::dense(3)},
          7, 9, 3, 5));
    }
  }
  SECTION("blocks of ConvNeXt and gated ones") {
    const nn::LayerSettings depthwise = nn::convolution(4, {3}, {1}, "groups = 4");
    const nn::LayerSettings gate =
        nn::layer("channel_gate",
                  "layers = [{ kind = 'global_average_pool' }, { kind = 'dense', units = 4 }, { kind = 'sigmoid' }]");
    check_with_recomputation(
        {.layers = {nn::convolution(4, {3}, {1}),
                    nn::residual({depthwise, nn::layer("layer_norm", "over = 'channels', epsilon = 0.1"),
                                  nn::convolution(8, {1}), nn::layer("gelu"), nn::convolution(4, {1}),
                                  nn::layer("scale", "initial = 0.5")}),
                    nn::residual({depthwise, tanh, gate}), nn::layer("global_average_pool", "size = [2, 1]"),
                    nn::dense(2)},
         .in = {2, 5, 5},
         .batch = 4});
  }
  SECTION("residual blocks") {
    check_with_recomputation(
        {.layers = {nn::convolution(3, {3}, {1}), tanh,
                    nn::residual({nn::convolution(5, {3}, {1}), norm, tanh, nn::convolution(5, {3}, {1}), norm},
                                 {nn::convolution(5, {1}), norm}),
                    nn::layer("global_average_pool"), nn::dense(2)},
         .in = {2, 5, 5},
         .batch = 4});
  }
}

}  // namespace
}  // namespace unisono
