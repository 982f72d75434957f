// Whole networks on the CPU's kernels against the reference backend's plain loops.
#include <catch2/catch.hpp>

#include "network_trial.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

struct RoomResult {
  std::vector<float> outputs, gradient, statistics;
  double loss = 0;
};

RoomResult room_result_of(kernels::Backend& backend, const TrialSettings& settings) {
  LocalReducer reducer;
  Trial trial(backend, settings, reducer);
  RoomResult result;
  if (!settings.vocabulary) result.outputs = trial.outputs(false);
  if (settings.vocabulary) result.outputs = {static_cast<float>(trial.evaluate())};
  result.loss = trial.loss_and_gradient();
  result.gradient = trial.canonical_gradient();
  result.statistics = canonical(trial.network.statistics(), trial.statistics.view());
  return result;
}

/// The reference rounds sums of doubles once, the CPU's kernels add floats. n terms of random signs have partial sums
/// that grow as √k up to the result, so that n roundings of deviation 2⁻²⁴/√3 of them leave √(n/6) 2⁻²⁴ of the result.
/// Layers' errors add up in squares: `terms` is Σ n over the sums that follow one another, and four deviations on the
/// scale of the largest value are allowed. Sums over the batch run in 16 lanes at least, so that their n is a 16th.
void check_close_to_reference(const std::vector<float>& a, const std::vector<float>& b, double terms) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (const float value : a) largest = std::max(largest, std::abs(value));
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max<double>(worst, std::abs(a[i] - b[i]));
  const double allowed = 4 * std::sqrt(terms / 6) * 0x1p-24;
  INFO("worst " << worst / largest << " of the largest, allowed " << allowed);
  CHECK(worst <= allowed * largest);
}

void compare(TrialSettings settings, double terms) {
  ReferenceBackend reference;
  for (const Index batch : {1, 3, 16, 37, 70}) {
    settings.batch = batch;
    const RoomResult expected = room_result_of(reference, settings);
    for (const int threads : {1, 2}) {
      const auto cpu = kernels::make_cpu_backend(threads);
      const RoomResult result = room_result_of(*cpu, settings);
      INFO(cpu->description() << ", batch " << batch);
      check_close_to_reference(expected.outputs, result.outputs, terms);
      check_close_to_reference(expected.gradient, result.gradient, terms);
      if (!expected.statistics.empty()) check_close_to_reference(expected.statistics, result.statistics, terms);
      CHECK(result.loss == Approx(expected.loss).epsilon(4 * std::sqrt(terms / 6) * 0x1p-24));
    }
  }
}

TEST_CASE("a small LeNet on the CPU equals the reference", "[cpu]") {
  // 25, 72, 48 and 20 terms forward, as many backward; weights' gradients over 70 examples of 144, 16, 1 and 1 pixels.
  const double terms = 2 * (25 + 72 + 48 + 20) + 70.0 * (144 + 16 + 1 + 1) / 16;
  compare({.layers = {convolution(8, {5}), pool("max_pool", {2}), layer("relu"), convolution(12, {3}),
                      pool("max_pool", {2}), layer("relu"), layer("flatten"), dense(20), layer("relu"), dense(10)},
           .in = {1, 16, 16},
           .loss = "softmax_cross_entropy"},
          terms);
}

LayerSettings repeated(int times, std::vector<LayerSettings> layers) {
  LayerSettings settings;
  settings.kind = "repeat";
  settings.own = OwnSettings::with(RepeatSettings{times, std::move(layers)});
  return settings;
}

// Sums of 24 units in ten products forward (of queries, keys, values; outputs; two dense layers; in two blocks) and of
// 19 rows in attention, twice as many backward; the head's 70 tokens; gradients of weights over 70 · 19 rows.
constexpr double kTermsOfLanguageModel = 3 * (10 * 48 + 4 * 19 + 70) + 70.0 * 19 / 16 * 8;

TEST_CASE("a small GPT on the CPU equals the reference", "[cpu]") {
  const LayerSettings attention = residual({layer("layer_norm"), layer("attention", "heads = 3")});
  const LayerSettings dense_layers = residual({layer("layer_norm"), dense(48), layer("gelu_tanh"), dense(24)});
  compare(language_model({layer("embedding", "units = 24"), repeated(2, {attention, dense_layers}), layer("layer_norm"),
                          layer("unembedding", "tied = true")},
                         19, 70),
          kTermsOfLanguageModel);
}

TEST_CASE("a small Llama on the CPU equals the reference", "[cpu]") {
  const LayerSettings attention =
      residual({layer("rms_norm"), layer("attention", "heads = 4, key_heads = 2, rotary = true, bias = false")});
  const LayerSettings gated = residual({layer("rms_norm"), layer("swiglu", "units = 20"), dense(24, "bias = false")});
  compare(language_model({layer("embedding", "units = 24, positions = 'none'"), repeated(2, {attention, gated}),
                          layer("rms_norm"), layer("unembedding")},
                         19, 70),
          kTermsOfLanguageModel);
}

TEST_CASE("a small classifier of texts on the CPU equals the reference", "[cpu]") {
  for (const char* pool : {"pool = 'last'", "pool = 'mean'"}) {
    const LayerSettings attention = residual({layer("layer_norm"), layer("attention", "heads = 3")});
    const LayerSettings gated = residual({layer("rms_norm"), layer("swiglu", "units = 20"), dense(24)});
    compare(text_classifier({layer("embedding", "units = 24"), repeated(2, {attention, gated}), layer("layer_norm"),
                             layer("sequence_pool", pool), dense(5)},
                            19, 70, 5),
            kTermsOfLanguageModel);
  }
}

TEST_CASE("a small residual network on the CPU equals the reference", "[cpu]") {
  const LayerSettings norm = layer("batch_norm"), relu = layer("relu");
  const auto bare = [](std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
    return convolution(channels, {kernel}, {kernel / 2}, "bias = false" + numbers("stride", {stride}));
  };
  const std::vector<LayerSettings> layers = {
      bare(16, 3, 1), norm,
      relu,           residual({bare(16, 3, 1), norm, relu, bare(16, 3, 1), norm}),
      relu,           residual({bare(32, 3, 2), norm, relu, bare(32, 3, 1), norm}, {bare(32, 1, 2), norm}),
      relu,           layer("global_average_pool"),
      dense(10)};
  // Six convolutions of up to 288 terms each way, and their weights' gradients over 70 examples of up to 64 pixels. A
  // norm divides by a deviation of down to a third: errors count threefold, in squares ninefold.
  compare({.layers = layers, .in = {3, 8, 8}, .loss = "softmax_cross_entropy"}, 9 * 6 * (2 * 288 + 70.0 * 64 / 16));
}

TEST_CASE("all kinds of layers on the CPU equal the reference", "[cpu]") {
  const LayerSettings grouped = convolution(6, {3, 2}, {1, 1}, "groups = 3, dilation = [1, 2]");
  const LayerSettings padded = pool("average_pool", {3}, {2}, "padding = 1");
  // Grouped convolution 6, pool 9, layer norm 120, dense 72 and 9; gradients over up to 90 pixels.
  compare({.layers = {grouped, layer("gelu"), padded, layer("layer_norm"), dropout(0.25), residual({layer("tanh")}),
                      pool("max_pool", {2}, {1}), layer("flatten"), dense(9), layer("sigmoid"), dropout(0.5), dense(4)},
           .in = {3, 9, 8},
           .loss = "sigmoid_cross_entropy",
           .label_smoothing = 0.1},
          2 * (6 + 9 + 120 + 72 + 9) + 70.0 * (90 + 20 + 2) / 16);
}

TEST_CASE("blocks of ConvNeXt and gated ones on the CPU equal the reference", "[cpu]") {
  const char* gate =
      "layers = [{ kind = 'global_average_pool' }, { kind = 'dense', units = 4 }, { kind = 'relu' }, "
      "{ kind = 'dense', units = CHANNELS }, { kind = 'sigmoid' }]";
  for (const std::int64_t channels : {6, 16}) {
    const std::string number = std::to_string(channels);
    std::string keys = gate;
    keys.replace(keys.find("CHANNELS"), 8, number);
    const LayerSettings depthwise = convolution(channels, {3}, {1}, "groups = " + number);
    const LayerSettings norm = layer("layer_norm", "over = 'channels'");
    const LayerSettings block = residual({depthwise, norm, convolution(4 * channels, {1}), layer("gelu"),
                                          convolution(channels, {1}), layer("scale", "initial = 0.5")});
    const LayerSettings gated = residual({depthwise, layer("relu"), layer("channel_gate", keys)});
    // A norm over 6 channels divides by a deviation of down to a third, as above.
    compare({.layers = {convolution(channels, {2}, {}, "stride = 2"), norm, block, gated,
                        layer("global_average_pool", "size = 3"), norm, dense(4)},
             .in = {3, 10, 10},
             .loss = "softmax_cross_entropy"},
            9 * 2 * (12.0 + 9 + 6 + 16 + 64 + 25 + 9 + 4) + 9 * 70.0 * 25 / 16 * 5);
  }
}

TEST_CASE("networks of every activation and loss on the CPU equal the reference, with weights, too", "[cpu]") {
  const std::vector<LayerSettings> layers = {dense(20),           layer("silu"),     dense(20),
                                             layer("leaky_relu"), dense(20),         layer("elu"),
                                             dense(20),           layer("softplus"), dense(4)};
  // Five sums of at most 20 terms each way, and their weights' gradients over 70 examples.
  for (const char* loss : {"softmax_cross_entropy", "multiclass_hinge", "sigmoid_cross_entropy", "mean_squared_error",
                           "mean_absolute_error", "huber"}) {
    for (const bool weighted : {false, true}) {
      INFO(loss << (weighted ? ", weighted" : ""));
      compare({.layers = layers, .in = {12, 1, 1}, .loss = loss, .weighted = weighted}, 2 * 5 * 20 + 70.0 * 5 / 16);
    }
  }
}

TEST_CASE("an autoencoder on the CPU equals the reference", "[cpu]") {
  compare({.layers = {dense(16), layer("relu"), dense(30)}, .in = {30, 1, 1}}, 2 * (30 + 16) + 2 * 70.0 / 16);
  compare({.layers = {convolution(4, {3}, {1}), layer("tanh"), convolution(2, {3}, {1})}, .in = {2, 5, 6}},
          2 * (18 + 36) + 2 * 70.0 * 30 / 16);
}

TEST_CASE("results on the CPU do not depend on the number of threads", "[cpu]") {
  const TrialSettings settings{.layers = {convolution(8, {3}), layer("batch_norm"), layer("relu"), dropout(0.3),
                                          pool("max_pool", {2}), dense(20), layer("layer_norm"), dense(10)},
                               .in = {2, 10, 10},
                               .batch = 70,
                               .loss = "softmax_cross_entropy"};
  const auto one = kernels::make_cpu_backend(1), two = kernels::make_cpu_backend(2);
  const RoomResult a = room_result_of(*one, settings), b = room_result_of(*two, settings);
  CHECK(a.loss == b.loss);
  CHECK(a.gradient == b.gradient);
  CHECK(a.outputs == b.outputs);
  CHECK(a.statistics == b.statistics);
}

}  // namespace
}  // namespace unisono::nn
