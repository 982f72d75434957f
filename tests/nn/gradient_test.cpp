// Every layer's gradient, in whole small networks, against central differences.
#include "gradient_check.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

void check(const TrialSettings& settings, double h = kSmooth) {
  ReferenceBackend backend;
  check_gradient(backend, settings, h);
}

LayerSettings named(LayerSettings settings, const std::string& name) {
  settings.name = name;
  return settings;
}

TEST_CASE("gradients of dense layers are those of central differences", "[gradient]") {
  check({.layers = {dense(3)}, .in = {4, 1, 1}});
  check({.layers = {dense(3), layer("tanh"), dense(2)}, .in = {4, 1, 1}});
  const LayerSettings bare = dense(3, "bias = false");
  check({.layers = {bare, layer("tanh"), dense(2)}, .in = {2, 2, 2}});
}

TEST_CASE("gradients of activations are those of central differences", "[gradient]") {
  for (const char* kind : {"gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "softplus"}) {
    check({.layers = {dense(4), layer(kind), dense(2)}, .in = {3, 1, 1}});
  }
  const LayerSettings leaky = layer("leaky_relu", "slope = 0.2"), elu = layer("elu", "alpha = 0.7");
  for (const LayerSettings& kinked : {leaky, layer("leaky_relu"), elu, layer("elu")}) {
    check({.layers = {dense(4), kinked, dense(2)}, .in = {3, 1, 1}}, kKinked);
  }
  check({.layers = {dense(4), layer("relu"), dense(2)}, .in = {3, 1, 1}}, kKinked);
  // Not fused, because tanh lies between.
  check({.layers = {dense(4), layer("tanh"), layer("relu"), dense(2)}, .in = {3, 1, 1}}, kKinked);
}

/// Layers between an embedding of four units and an unembedding.
std::vector<LayerSettings> between(std::vector<LayerSettings> layers, const std::string& head = "",
                                   const std::string& keys = "units = 4") {
  layers.insert(layers.begin(), layer("embedding", keys));
  layers.push_back(layer("unembedding", head));
  return layers;
}

TEST_CASE("gradients of language models are those of central differences", "[gradient]") {
  check(language_model(between({}), 3, 5));
  check(language_model(between({}, "tied = true"), 3, 5));
  check(language_model(between({layer("rms_norm")}, "", "units = 4, positions = 'sinusoidal'"), 3, 5));
  check(language_model(between({layer("swiglu", "units = 3"), dense(4)}, "", "units = 4, positions = 'none'"), 3, 5));
}

TEST_CASE("gradients of attention are those of central differences", "[gradient]") {
  for (const char* keys :
       {"heads = 2", "heads = 1, causal = false", "heads = 2, rotary = true, theta = 100",
        "heads = 4, key_heads = 2, head_units = 2, rotary = true, bias = false", "heads = 2, dropout = 0.3"}) {
    INFO(keys);
    check(language_model(between({layer("attention", keys)}), 4, 5));
    check(language_model(between({residual({layer("layer_norm"), layer("attention", keys)}), layer("layer_norm")},
                                 "tied = true", "units = 8"),
                         5, 3),
          kSmooth / 4);
  }
}

TEST_CASE("gradients of classifiers of texts are those of central differences", "[gradient]") {
  for (const char* pool : {"pool = 'last'", "pool = 'mean'"}) {
    INFO(pool);
    const LayerSettings embedding = layer("embedding", "units = 4");
    check(text_classifier({embedding, layer("sequence_pool", pool), dense(3)}, 5, 4, 3, 4));
    check(text_classifier({embedding, residual({layer("layer_norm"), layer("attention", "heads = 2")}),
                           layer("sequence_pool", pool), layer("tanh"), dropout(0.3), dense(2)},
                          5, 4, 2, 3),
          kSmooth / 4);
  }
}

TEST_CASE("repeated layers have parameters of their own", "[gradient]") {
  LayerSettings settings = layer("repeat", "times = 2, layers = [{ kind = 'dense', units = 4 }, { kind = 'tanh' }]");
  check(language_model(between({settings}), 3, 5));
  check({.layers = {settings, dense(2)}, .in = {3, 1, 1}});
}

TEST_CASE("gradients of convolutions are those of central differences", "[gradient]") {
  const LayerSettings plain = convolution(2, {3}, {1});
  check({.layers = {plain, layer("tanh"), plain}, .in = {2, 3, 4}, .batch = 2});

  const LayerSettings all = convolution(4, {2, 3}, {1, 2}, "stride = [2, 1], dilation = [1, 2], groups = 2");
  check({.layers = {all, layer("tanh"), all}, .in = {2, 4, 5}, .batch = 2});
  check({.layers = {plain, layer("relu"), plain}, .in = {2, 3, 3}, .batch = 2, .data = 3}, kKinked);
}

TEST_CASE("gradients through pooling are those of central differences", "[gradient]") {
  const LayerSettings first = convolution(2, {3}, {1}), last = dense(2);
  LayerSettings overlapping = pool("average_pool", {3}, {2}, "padding = 1");
  check({.layers = {first, overlapping, layer("tanh"), last}, .in = {1, 5, 4}, .batch = 2});
  check({.layers = {first, layer("tanh"), layer("global_average_pool"), last}, .in = {1, 3, 4}, .batch = 2});
  overlapping.kind = "max_pool";
  check({.layers = {first, overlapping, last}, .in = {1, 5, 4}, .batch = 2}, kKinked);
  check({.layers = {first, pool("max_pool", {2}), layer("relu"), last}, .in = {1, 5, 4}, .batch = 2}, kKinked);
}

TEST_CASE("gradients of norms are those of central differences", "[gradient]") {
  const LayerSettings first = convolution(2, {2}), last = dense(2);
  check({.layers = {first, layer("batch_norm"), layer("tanh"), last}, .in = {2, 3, 3}});
  check({.layers = {first, layer("layer_norm"), layer("tanh"), last}, .in = {2, 3, 3}});
  check({.layers = {layer("batch_norm"), layer("tanh"), last}, .in = {2, 2, 2}});
  check({.layers = {layer("layer_norm"), layer("tanh"), last}, .in = {2, 2, 2}});
  check({.layers = {dense(3), layer("batch_norm"), layer("relu"), last}, .in = {4, 1, 1}, .batch = 4}, kKinked);
}

TEST_CASE("gradients of norms of pixels, scales and gates are those of central differences", "[gradient]") {
  const LayerSettings first = convolution(4, {2}), last = dense(2);
  const LayerSettings norm = layer("layer_norm", "over = 'channels'"), scale = layer("scale", "initial = 0.7");
  const LayerSettings gate = layer("channel_gate",
                                   "layers = [{ kind = 'global_average_pool' }, { kind = 'dense', units = 3 }, "
                                   "{ kind = 'tanh' }, { kind = 'dense', units = 4 }, { kind = 'sigmoid' }]");
  check({.layers = {first, norm, layer("tanh"), last}, .in = {2, 3, 4}, .batch = 2});
  check({.layers = {first, scale, layer("tanh"), last}, .in = {2, 3, 3}, .batch = 2});
  check({.layers = {first, residual({layer("tanh"), scale}), last}, .in = {2, 3, 3}, .batch = 2});
  check({.layers = {dense(4), scale, layer("tanh"), last}, .in = {3, 1, 1}});
  check({.layers = {first, gate, last}, .in = {2, 3, 4}, .batch = 2});
  check({.layers = {gate, layer("tanh"), last}, .in = {4, 2, 3}, .batch = 2});
  // The gate's inputs are those of the shortcut; its product is added, and normalised in place of the addition.
  check({.layers = {first, residual({gate}), layer("tanh"), residual({convolution(4, {3}, {1}), gate, scale}), last},
         .in = {2, 3, 3},
         .batch = 2});
  check({.layers = {first, layer("global_average_pool", "size = [2, 1]"), layer("tanh"), last},
         .in = {1, 4, 3},
         .batch = 2});
}

TEST_CASE("gradients of what is not frozen are those of central differences", "[gradient][freeze]") {
  const LayerSettings first = convolution(2, {2}), last = dense(2);
  const auto frozen = [&](std::vector<std::string> patterns) {
    check(
        {.layers = {first, layer("batch_norm"), layer("tanh"), last}, .in = {2, 3, 3}, .freeze = std::move(patterns)});
  };
  frozen({"convolution1"});
  frozen({"convolution1.weight", "dense1"});
  frozen({"batch_norm1"});  // whose running statistics are constants
  frozen({"conv*", "batch_norm1"});
  frozen({"*.bias"});
  check({.layers = {first, residual({convolution(2, {3}, {1}), layer("batch_norm")}), layer("tanh"), last},
         .in = {2, 3, 3},
         .freeze = {"residual1"}});
}

TEST_CASE("gradients through dropout are those of central differences", "[gradient]") {
  check({.layers = {dense(6), dropout(0.4), layer("tanh"), dropout(0.2), dense(2)}, .in = {3, 1, 1}});
}

TEST_CASE("gradients of the losses are those of central differences", "[gradient]") {
  for (const double smoothing : {0.0, 0.2}) {
    for (const char* loss : {"softmax_cross_entropy", "sigmoid_cross_entropy"}) {
      check({.layers = {dense(4)}, .in = {3, 1, 1}, .loss = loss, .label_smoothing = smoothing});
    }
  }
  check({.layers = {convolution(2, {2})}, .in = {1, 3, 3}, .loss = "sigmoid_cross_entropy"});
  for (const char* loss : {"multiclass_hinge", "mean_absolute_error", "huber"}) {
    check({.layers = {dense(4), layer("tanh"), dense(3)}, .in = {3, 1, 1}, .loss = loss}, kKinked);
  }
  check({.layers = {dense(4), layer("tanh"), dense(1)},
         .in = {3, 1, 1},
         .loss = "sigmoid_cross_entropy",
         .label_smoothing = 0.1,
         .classes = 2});
}

TEST_CASE("gradients of weighted losses are those of central differences", "[gradient]") {
  for (const char* loss :
       {"softmax_cross_entropy", "sigmoid_cross_entropy", "mean_squared_error", "huber", "multiclass_hinge"}) {
    check({.layers = {dense(4), layer("tanh"), dense(3)}, .in = {3, 1, 1}, .loss = loss, .weighted = true}, kKinked);
  }
}

TEST_CASE("gradients of residual blocks are those of central differences", "[gradient]") {
  const LayerSettings same = convolution(2, {3}, {1}), last = dense(2);
  const kernels::Extent in{2, 3, 3};
  // The identity; a branch that ends with a batch norm, which the addition and the ReLU are fused into.
  check({.layers = {residual({same, layer("tanh"), same}), last}, .in = in, .batch = 2});
  check({.layers = {same, residual({layer("tanh"), same, layer("batch_norm")}), layer("tanh"), last}, .in = in});
  check({.layers = {same, residual({same, layer("batch_norm")}), layer("relu"), last}, .in = in}, kKinked);
  // A projection.
  check(
      {.layers = {same,
                  residual({convolution(3, {3}, {1}), layer("batch_norm")}, {convolution(3, {1}), layer("batch_norm")}),
                  layer("tanh"), last},
       .in = in});
  // Both parts change their gradients in place: the branch must not spoil the shortcut's.
  check({.layers = {same, residual({same, layer("relu")}, {same, layer("relu")}), last}, .in = in, .batch = 2},
        kKinked);
  check({.layers = {same, residual({layer("tanh")}), residual({dropout(0.3)}), last}, .in = in, .batch = 2});
}

TEST_CASE("gradients of residual blocks inside others are those of central differences", "[gradient]") {
  const LayerSettings same = convolution(2, {3}, {1}), last = dense(2);
  const kernels::Extent in{2, 2, 3};
  // The inner block is first: three readers of one tensor.
  const LayerSettings inner = named(residual({same, layer("tanh")}), "inner");
  check({.layers = {same, residual({inner, same}), last}, .in = in, .batch = 2});
  // … and last: the outer addition meets the inner one.
  check({.layers = {same, residual({same, layer("tanh"), inner}), last}, .in = in, .batch = 2});
  check({.layers = {same, residual({inner}), last}, .in = in, .batch = 2});
  check({.layers = {same, residual({inner}, {inner}), layer("tanh"), last}, .in = in, .batch = 2});
}

TEST_CASE("a gradient is added to what is there, or replaces it", "[gradient]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const TrialSettings settings{
      .layers = {convolution(2, {2}), layer("batch_norm"), layer("relu"), layer("layer_norm"), dense(2)},
      .in = {1, 3, 3}};
  Trial trial(backend, settings, reducer);
  trial.loss_and_gradient(kernels::Write::overwrite);
  const std::vector<float> once = trial.canonical_gradient();
  trial.loss_and_gradient(kernels::Write::add);
  const std::vector<float> twice = trial.canonical_gradient();
  // x + x is exact. (Sums in double are rounded once to a float each time.)
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == Approx(2 * once[i]).epsilon(0x1p-23));
}

}  // namespace
}  // namespace unisono::nn
