// Classifiers of texts: what is behind a text's end changes nothing.
#include <catch2/catch.hpp>

#include "network_trial.hpp"
#include "reference_backend.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

using Catch::Matchers::Contains;

constexpr Index kRows = 9, kVocabulary = 6, kClasses = 3;

TrialSettings small_classifier(const std::string& pool) {
  return text_classifier(
      {layer("embedding", "units = 8"), residual({layer("layer_norm"), layer("attention", "heads = 2")}),
       residual({layer("rms_norm"), dense(16), layer("gelu_tanh"), dropout(0.25), dense(8)}), layer("layer_norm"),
       layer("sequence_pool", pool), dropout(0.25), dense(kClasses)},
      kRows, kVocabulary, kClasses, 5);
}

struct Result {
  std::vector<float> outputs, gradient;
  double loss = 0;
  bool operator==(const Result&) const = default;
};

/// \param padding the token behind the ends of the texts
Result result_with(kernels::Backend& backend, const TrialSettings& settings, std::int32_t padding) {
  LocalReducer reducer;
  Trial trial(backend, settings, reducer);
  std::ranges::replace(trial.tokens, kernels::kPaddingToken, padding);
  Result result{.outputs = trial.outputs(false), .gradient = {}};
  result.loss = trial.loss_and_gradient();
  result.gradient = trial.canonical_gradient();
  return result;
}

void refuse(const std::vector<LayerSettings>& layers, const std::string& message) {
  const auto backend = kernels::make_cpu_backend(1);
  const Shape in{.extent = {1}, .rows = kRows, .vocabulary = kVocabulary};
  CHECK_THROWS_WITH(Network({.loss = LossKind::softmax_cross_entropy, .layers = layers}, in, *backend),
                    Contains(message));
}

}  // namespace

TEST_CASE("tokens behind the end of a text change nothing, bit for bit", "[sequence_pool]") {
  for (const char* pool : {"pool = 'last'", "pool = 'mean'"}) {
    for (const int threads : {1, 2}) {
      const auto backend = kernels::make_cpu_backend(threads);
      const Result expected = result_with(*backend, small_classifier(pool), kernels::kPaddingToken);
      CHECK(std::isfinite(expected.loss));
      for (const std::int32_t padding : {0, 3, 5})
        CHECK(result_with(*backend, small_classifier(pool), padding) == expected);
    }
  }
}

TEST_CASE("a pooled row is the last real one, or the mean of the real ones", "[sequence_pool]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const auto pooled = [&](const std::string& pool) {
    const LayerSettings embedding = layer("embedding", "units = 1, positions = 'none'");
    Trial trial(backend, text_classifier({embedding, layer("sequence_pool", pool)}, 4, 3, 1, 3), reducer);
    part(trial.theta.view(), trial.network.parameters().blocks()[0])[0] = 1;
    part(trial.theta.view(), trial.network.parameters().blocks()[0])[1] = 10;
    part(trial.theta.view(), trial.network.parameters().blocks()[0])[2] = 100;
    trial.tokens = {0, 1, 2, 1, 2, 2, 0, -1, 1, -1, -1, -1};
    trial.lengths = {4, 3, 1};
    return trial.outputs(false);
  };
  CHECK(pooled("pool = 'last'") == std::vector<float>{10, 1, 10});
  CHECK(pooled("pool = 'mean'") == std::vector<float>{121.0F / 4, 67, 10});
}

TEST_CASE("networks that would read padding are refused", "[sequence_pool]") {
  const LayerSettings embedding = layer("embedding", "units = 4"), pooling = layer("sequence_pool");
  refuse({embedding, layer("attention", "heads = 1, causal = false"), pooling, dense(2)},
         "model.layers[2] 'sequence_pool1': in 'attention1.heads' tokens see later ones (causal = false)");
  refuse({embedding, pooling, pooling, dense(2)}, "'sequence_pool1' has made one vector of each text before");
  const auto backend = kernels::make_cpu_backend(1);
  CHECK_THROWS_WITH(
      Network({.loss = LossKind::mean_squared_error, .layers = {dense(4), pooling}}, {.extent = {3}}, *backend),
      Contains("does not begin with an embedding"));
}

}  // namespace unisono::nn
