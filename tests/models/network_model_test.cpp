#include "network_model.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "../nn/network_trial.hpp"
#include "../nn/reference_backend.hpp"
#include "metric.hpp"
#include "unisono/base/errors.hpp"
#include "value_of.hpp"

namespace unisono::models {
namespace {

ModelSettings settings_of(std::vector<nn::LayerSettings> layers, const std::string& loss = "softmax_cross_entropy") {
  ModelSettings settings;
  settings.network = {.loss = value_of(loss, nn::kLossKinds), .label_smoothing = 0, .layers = std::move(layers)};
  return settings;
}

/// A model on the reference backend with its state and some examples.
struct NetworkSetup {
  NetworkSetup(const ModelSettings& settings, const ModelInputs& inputs, Index examples)
      : model(settings.network, inputs, {.backend = backend, .reducer = reducer, .steps_together = true, .seed = 3}),
        theta(model.layout().size()),
        statistics(model.statistics_layout().size()),
        gradient(model.layout().size()),
        features(nn::generic_values(static_cast<std::size_t>(examples * inputs.features.size()), 1)),
        targets(nn::generic_values(static_cast<std::size_t>(examples * inputs.target_size), 2)),
        numbers(static_cast<std::size_t>(examples)) {
    for (Index i = 0; i < examples && inputs.classes > 0; ++i) {
      labels.push_back(static_cast<std::int32_t>((5 * i + 2) % inputs.classes));
    }
    std::iota(numbers.begin(), numbers.end(), 40);
    model.initialise(7, state());
  }

  ModelState state() { return {theta.view(), statistics.view()}; }
  data::Batch batch(std::size_t first, std::size_t last) const {
    const auto cut = [&](const auto& all) {
      const std::size_t size = all.size() / numbers.size();
      return std::span(all).subspan(first * size, (last - first) * size);
    };
    return {.size = static_cast<Index>(last - first),
            .micro_batch_size = static_cast<Index>(numbers.size()),
            .global_size = static_cast<Index>(numbers.size()),
            .examples = cut(numbers),
            .features = cut(features),
            .labels = cut(labels),
            .targets = cut(targets)};
  }
  data::Batch all() const { return batch(0, numbers.size()); }

  nn::ReferenceBackend backend;
  LocalReducer reducer;
  NetworkModel model;
  Buffer theta, statistics, gradient;
  std::vector<float> features, targets;
  std::vector<std::int32_t> labels;
  std::vector<std::uint64_t> numbers;
};

const ModelInputs kImages{.features = {2, 4, 4}, .classes = 7};
const std::vector<nn::LayerSettings> kLayers = {nn::convolution(3, {3}), nn::layer("batch_norm"), nn::layer("relu"),
                                                nn::dropout(0.5), nn::dense(7)};

TEST_CASE("a linear softmax model's first gradient is worked out by hand", "[model]") {
  // W = 0: p = ½ for both classes. Two examples x = 1, 3 with labels 0, 1: dW = Σ (p − t) x / 2 = (1 − 1·½ …):
  // class 0: (½ − 1)·1 + (½ − 0)·3 = 1, halved ½; class 1: −½. db: (½ − 1) + ½ = 0.
  const nn::LayerSettings zero = nn::dense(2, "initialiser = 'zeros'");
  NetworkSetup setup(settings_of({zero}), {.features = {1, 1, 1}, .classes = 2}, 2);
  setup.features = {1, 3};
  setup.labels = {0, 1};
  kernels::LossSums sums;
  setup.model.loss_and_gradient(setup.all(), 0.5F, setup.state(), {setup.gradient.view()}, sums);
  const auto& blocks = setup.model.layout().blocks();
  CHECK(part(setup.gradient.view(), blocks[0])[0] == 0.5F);
  CHECK(part(setup.gradient.view(), blocks[0])[1] == -0.5F);
  CHECK(part(setup.gradient.view(), blocks[1])[0] == 0);
  CHECK(sums.loss == Approx(2 * std::log(2.0)).epsilon(1e-12));
  CHECK(sums.examples == 2);
  CHECK(sums.correct == 1);  // of equal logits the first is taken
}

TEST_CASE("gradients of parts of a batch add up to that of the batch", "[model]") {
  NetworkSetup setup(settings_of({nn::convolution(3, {3}), nn::layer("relu"), nn::dropout(0.5), nn::dense(7)}), kImages,
                     6);
  kernels::LossSums whole, parts;
  setup.model.loss_and_gradient(setup.all(), 1.0F / 6, setup.state(), {setup.gradient.view()}, whole);
  const std::vector<float> once = nn::canonical(setup.model.layout(), setup.gradient.view());
  setup.model.loss_and_gradient(setup.batch(0, 1), 1.0F / 6, setup.state(), {setup.gradient.view()}, parts);
  setup.model.loss_and_gradient(setup.batch(1, 6), 1.0F / 6, setup.state(),
                                {setup.gradient.view(), kernels::Write::add}, parts);
  const std::vector<float> twice = nn::canonical(setup.model.layout(), setup.gradient.view());
  CHECK(parts.loss == Approx(whole.loss).epsilon(1e-14));
  // Sums in double, rounded once against twice and added: three roundings of values up to the largest.
  const float largest = *std::max_element(once.begin(), once.end());
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(std::abs(once[i] - twice[i]) <= 3 * 0x1p-24F * largest);
}

TEST_CASE("evaluation counts what training counts, but without dropout and with running statistics", "[model]") {
  NetworkSetup plain(settings_of({nn::convolution(3, {3}), nn::layer("relu"), nn::dense(7)}), kImages, 6);
  kernels::LossSums trained, evaluated, in_parts;
  plain.model.loss_and_gradient(plain.all(), 1, plain.state(), {plain.gradient.view()}, trained);
  plain.model.evaluate(plain.all(), plain.state(), evaluated);
  CHECK(evaluated.loss == trained.loss);
  CHECK(evaluated.correct == trained.correct);
  plain.model.evaluate(plain.batch(0, 4), plain.state(), in_parts);
  plain.model.evaluate(plain.batch(4, 4), plain.state(), in_parts);
  plain.model.evaluate(plain.batch(4, 6), plain.state(), in_parts);
  CHECK(in_parts.loss == Approx(evaluated.loss).epsilon(1e-14));
  CHECK(in_parts.examples == 6);

  NetworkSetup normed(settings_of(kLayers), kImages, 6);
  const std::vector<float> before(normed.statistics.view().begin(), normed.statistics.view().end());
  kernels::LossSums first, second;
  normed.model.evaluate(normed.all(), normed.state(), first);
  normed.model.evaluate(normed.all(), normed.state(), second);
  CHECK(first.loss == second.loss);
  CHECK(std::equal(before.begin(), before.end(), normed.statistics.view().begin()));
  kernels::LossSums training;
  normed.model.loss_and_gradient(normed.all(), 1, normed.state(), {normed.gradient.view()}, training);
  CHECK(training.loss != first.loss);
  CHECK_FALSE(std::equal(before.begin(), before.end(), normed.statistics.view().begin()));
}

TEST_CASE("predictions are probabilities in the order of the examples", "[model]") {
  NetworkSetup setup(settings_of(kLayers), kImages, 5);
  std::vector<float> all(5 * 7), one(7);
  REQUIRE(setup.model.output_size() == 7);
  setup.model.predict(setup.all(), setup.state(), all);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto row = std::span(all).subspan(7 * i, 7);
    // Seven roundings of at most 2⁻²⁵.
    CHECK(std::accumulate(row.begin(), row.end(), 0.0) == Approx(1).margin(7 * 0x1p-25));
    setup.model.predict(setup.batch(i, i + 1), setup.state(), one);
    CHECK(std::equal(one.begin(), one.end(), row.begin()));
  }
  // The label's probability is exp(−loss).
  kernels::LossSums sums;
  setup.model.evaluate(setup.batch(2, 3), setup.state(), sums);
  CHECK(std::exp(-sums.loss) == Approx(all[7 * 2 + static_cast<std::size_t>(setup.labels[2])]).epsilon(0x1p-22));
  setup.model.predict(setup.batch(2, 2), setup.state(), {});
}

TEST_CASE("a layer's outputs are predicted in place of the model's", "[model]") {
  NetworkSetup setup(settings_of(kLayers), kImages, 5);
  const auto outputs = [&](const std::string& name) {
    if (!name.empty()) setup.model.predict_layer(name);
    std::vector<float> values(5 * static_cast<std::size_t>(setup.model.output_size()));
    setup.model.predict(setup.all(), setup.state(), values);
    return values;
  };
  CHECK(setup.model.prediction() == Prediction::probabilities);
  const auto probabilities = outputs("");
  const auto normed = outputs("batch_norm1"), relu = outputs("relu1"), logits = outputs("dense1");
  CHECK(setup.model.prediction() == Prediction::values);
  REQUIRE(normed.size() == 5 * 3 * 2 * 2);
  CHECK(*std::min_element(normed.begin(), normed.end()) < 0);  // though the ReLU is fused into it elsewhere
  for (std::size_t i = 0; i < normed.size(); ++i) CHECK(relu[i] == std::max(normed[i], 0.0F));
  CHECK(outputs("dropout1") == relu);
  CHECK(probabilities[1] / probabilities[0] == Approx(std::exp(logits[1] - logits[0])).epsilon(0x1p-20));
  CHECK_THROWS_WITH(setup.model.predict_layer("relu9"),
                    Catch::Contains("'relu9'; choose from convolution1, batch_norm1, relu1, dropout1, dense1"));
}

TEST_CASE("the memory that is predicted is the memory that is allocated", "[model]") {
  for (const Index examples : {1, 5, 6}) {
    NetworkSetup setup(settings_of(kLayers), kImages, examples);
    kernels::LossSums sums;
    CHECK(setup.model.workspace_size() == 0);
    setup.model.evaluate(setup.all(), setup.state(), sums);
    CHECK(setup.model.workspace_size() * 4 == setup.model.inference_workspace_bytes(examples));
    setup.model.loss_and_gradient(setup.all(), 1, setup.state(), {setup.gradient.view()}, sums);
    CHECK(setup.model.workspace_size() * 4 == setup.model.workspace_bytes(examples));
    setup.model.evaluate(setup.all(), setup.state(), sums);
    setup.model.loss_and_gradient(setup.batch(0, 1), 1, setup.state(), {setup.gradient.view()}, sums);
    CHECK(setup.model.workspace_size() * 4 == setup.model.workspace_bytes(examples));
  }
}

TEST_CASE("a batch of no examples takes part: zeros, no loss", "[model]") {
  NetworkSetup setup(settings_of(kLayers), kImages, 3);
  std::fill(setup.gradient.view().begin(), setup.gradient.view().end(), 9.0F);
  kernels::LossSums sums;
  Index called = 0;
  setup.model.loss_and_gradient(
      setup.batch(1, 1), 1, setup.state(),
      {setup.gradient.view(), kernels::Write::overwrite, [&](Index first, Index last) { called += last - first; }},
      sums);
  CHECK(sums.examples == 0);
  CHECK(called == setup.model.layout().size());
  CHECK(std::count(setup.gradient.view().begin(), setup.gradient.view().end(), 0.0F) == setup.gradient.size());
}

TEST_CASE("metrics of a classifier", "[model]") {
  const NetworkSetup setup(settings_of(kLayers), kImages, 1);
  const kernels::LossSums sums{.loss = 12, .examples = 8, .correct = 6, .correct_top5 = 7};
  const auto metrics = setup.model.metrics(sums);
  CHECK(metric(metrics, "loss") == 1.5);
  CHECK(metric(metrics, "accuracy") == 0.75);
  CHECK(metric(metrics, "top5_accuracy") == 0.875);
  CHECK(metrics[1].larger_is_better);
  CHECK_FALSE(metrics[0].larger_is_better);
  CHECK(metrics.size() == 3);

  const NetworkSetup few(settings_of({nn::dense(5)}), {.features = {2, 1, 1}, .classes = 5}, 1);
  CHECK(std::isnan(metric(few.model.metrics(sums), "top5_accuracy")));  // every class is among the first five
}

TEST_CASE("a metric is found by its name or another one", "[model]") {
  const std::vector<Metric> two = {metric_of("loss", 1), metric_of("auc", 2), metric_of("f1", 3),
                                   metric_of("f1_macro", 4)};
  const std::vector<Metric> more = {metric_of("auc", 2), metric_of("f1", 3)};
  const auto value = [](const std::vector<Metric>& metrics, const char* name) {
    const Metric* const found = find_metric(metrics, name);
    return found == nullptr ? -1 : found->value;
  };
  CHECK(value(two, "auc") == 2);
  CHECK(value(two, "roc_auc") == 2);
  CHECK(value(two, "f1") == 3);
  CHECK(value(two, "f1_macro") == 4);
  CHECK(value(more, "f1_macro") == 3);  // of more than two classes, F1 is the macro mean
  CHECK(value(more, "ece") == -1);
  CHECK(value(more, "accuracy") == -1);
  CHECK(means_metric("roc_auc"));
  CHECK(means_metric("f1"));
  CHECK_FALSE(means_metric("f2"));
  CHECK(is_metric("auc"));
  CHECK_FALSE(is_metric("roc_auc"));  // nobody records this
  CHECK(is_usual("accuracy"));
  CHECK_FALSE(is_usual("f1"));
}

TEST_CASE("an evaluation tells the predictions of a network", "[model]") {
  struct Kept final : PredictionReader {
    void read(View all, View given, View scores) override {
      rows.insert(rows.end(), all.begin(), all.end());
      answers.insert(answers.end(), given.begin(), given.end());
      CHECK(scores.empty());
    }
    std::vector<float> rows, answers;
  };
  NetworkSetup setup(settings_of(kLayers), kImages, 4);
  kernels::LossSums sums, told;
  setup.model.evaluate(setup.all(), setup.state(), sums);
  Kept kept;
  setup.model.evaluate_predictions(setup.all(), setup.state(), told, kept);
  CHECK(told.loss == sums.loss);
  CHECK(told.correct == sums.correct);
  std::vector<float> predictions(4 * static_cast<std::size_t>(setup.model.output_size()));
  setup.model.predict(setup.all(), setup.state(), predictions);
  CHECK(kept.rows == predictions);
  CHECK(kept.answers == answers_of(setup.all()));
}

TEST_CASE("independent answers have a metric of their own, and a range", "[model]") {
  NetworkSetup setup(settings_of({nn::dense(2)}, "sigmoid_cross_entropy"), {.features = {1, 1, 1}, .target_size = 2},
                     3);
  const kernels::LossSums sums{.loss = 12, .examples = 8, .correct = 6};
  CHECK(metric(setup.model.metrics(sums), "subset_accuracy") == 0.75);
  CHECK(std::isnan(metric(setup.model.metrics(sums), "accuracy")));
  setup.features = {1, 2, 3};
  setup.targets = {1, 0, 0.5F, 1, 0, 1.5F};
  kernels::LossSums more;
  CHECK_THROWS_WITH(setup.model.evaluate(setup.all(), setup.state(), more),
                    Catch::Contains("targets from 0 to 1, but one is 1.5"));
}

TEST_CASE("metrics of a regression, by hand", "[model]") {
  // Outputs 1, 2, 3 for targets 1, 4, 4: errors 0, 2, 1; squares sum to 5; Σ(t − 3)² = 6.
  const nn::LayerSettings identity = nn::dense(1, "initialiser = 'ones'");
  NetworkSetup setup(settings_of({identity}, "mean_squared_error"), {.features = {1, 1, 1}, .target_size = 1}, 3);
  setup.features = {1, 2, 3};
  setup.targets = {1, 4, 4};
  kernels::LossSums sums;
  setup.model.evaluate(setup.all(), setup.state(), sums);
  const auto metrics = setup.model.metrics(sums);
  CHECK(metric(metrics, "loss") == Approx(5.0 / 3));
  CHECK(metric(metrics, "rmse") == Approx(std::sqrt(5.0 / 3)));
  CHECK(metric(metrics, "mae") == 1);
  CHECK(metric(metrics, "r2") == Approx(1 - 5.0 / 6));
  CHECK(std::isnan(metric(metrics, "accuracy")));
  std::vector<float> predictions(3);
  setup.model.predict(setup.all(), setup.state(), predictions);
  CHECK(predictions == setup.features);
}

TEST_CASE("targets that are all equal have no R²", "[model]") {
  const NetworkSetup setup(settings_of({nn::dense(1)}, "mean_squared_error"), {.features = {1, 1, 1}, .target_size = 1},
                           1);
  const kernels::LossSums sums{
      .loss = 1, .examples = 2, .squared_error = 1, .target_sum = 4, .target_squared_sum = 8, .values = 2};
  CHECK(std::isnan(metric(setup.model.metrics(sums), "r2")));
}

TEST_CASE("the rounding of sums of equal targets is no variance", "[model]") {
  const NetworkSetup setup(settings_of({nn::dense(1)}, "mean_squared_error"), {.features = {1, 1, 1}, .target_size = 1},
                           1);
  const auto r2 = [&](float target, int count, float odd) {
    kernels::LossSums sums{.loss = 1, .examples = count + 1, .squared_error = 1e-3, .values = count + 1};
    for (int i = 0; i <= count; ++i) {
      const double one = i < count ? target : odd;
      sums.target_sum += one;
      sums.target_squared_sum += one * one;
    }
    return metric(setup.model.metrics(sums), "r2");
  };
  bool rounds_up = false;
  for (const float target : {0.1F, 0.3F, 0.7F, 1234.567F, 3e-5F}) {
    for (const int count : {10, 999, 12345, 100000}) {
      CHECK(std::isnan(r2(target, count, target)));
      double sum = 0, squares = 0;
      for (int i = 0; i <= count; ++i) sum += target, squares += double(target) * double(target);
      rounds_up |= squares - sum * sum / (count + 1) > 0;
    }
  }
  CHECK(rounds_up);  // the case that is tested has occurred
  CHECK(std::isfinite(r2(0.1F, 12345, 0.2F)));
}

TEST_CASE("the summary has a row for every layer of the config", "[model]") {
  const NetworkSetup setup(settings_of(kLayers), kImages, 1);
  const std::vector<LayerSummary> rows = setup.model.summary(10);
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].name == "convolution1");
  CHECK(rows[0].output == "3×2×2");
  CHECK(rows[0].parameters == 3 * 2 * 9 + 3);
  CHECK(rows[0].flops_per_example == 4.0 * 3 * 2 * 2 * 2 * 9);
  CHECK(rows[0].activation_bytes == 10 * 12 * 4 + 8 * 4);  // 120 floats, rounded up to 128
  CHECK(rows[1].kind == "batch_norm, global batch statistics");
  CHECK(rows[2].kind == "relu (in batch_norm1)");
  CHECK(rows[4].flops_per_example == 6.0 * 12 * 7);
  CHECK(setup.model.flops_per_example() == rows[0].flops_per_example + rows[4].flops_per_example);
  CHECK(setup.model.notes() == std::vector<std::string>{"global batch statistics"});
}

TEST_CASE("initial values are the same for every model of the same settings and seed", "[model]") {
  NetworkSetup one(settings_of(kLayers), kImages, 1), two(settings_of(kLayers), kImages, 1);
  CHECK(std::equal(one.theta.view().begin(), one.theta.view().end(), two.theta.view().begin()));
  two.model.initialise(8, two.state());
  CHECK_FALSE(std::equal(one.theta.view().begin(), one.theta.view().end(), two.theta.view().begin()));
  const auto& blocks = one.model.statistics_layout().blocks();
  CHECK(part(one.statistics.view(), blocks[0])[2] == 0);
  CHECK(part(one.statistics.view(), blocks[1])[2] == 1);
}

TEST_CASE("make_model refuses what it cannot make", "[model]") {
  nn::ReferenceBackend backend;
  LocalReducer reducer;
  const ModelContext context{.backend = backend, .reducer = reducer};
  CHECK(make_model(settings_of(kLayers), kImages, context) != nullptr);
  ModelSettings unknown = settings_of(kLayers);
  unknown.kind = "forest";
  CHECK_THROWS_AS(make_model(unknown, kImages, context), ConfigError);
  CHECK_THROWS_AS(make_model(settings_of(kLayers), {.features = {2, 2, 2}, .classes = 7}, context), ConfigError);
  CHECK_THROWS_AS(make_model(settings_of(kLayers), {.features = {2, 4, 4}, .classes = 8}, context), ConfigError);
}

TEST_CASE("a model is read from a config", "[model]") {
  ModelSettings settings;
  parse_config(
      {.path = "c.toml",
       .text = "kind = \"network\"\nloss = \"mean_squared_error\"\nlayers = [ { kind = \"dense\", units = 3 } ]",
       .overrides = {}},
      [&](ConfigVisitor& visitor) { settings.describe(visitor); });
  CHECK(settings.network.loss == nn::LossKind::mean_squared_error);
  CHECK(settings.network.layers.at(0).kind == "dense");
}

TEST_CASE("an example of weight 2 counts as if it were there twice", "[model]") {
  const std::vector<nn::LayerSettings> layers = {nn::dense(5), nn::layer("tanh"), nn::dense(3)};
  NetworkSetup weighted(settings_of(layers), {.features = {4, 1, 1}, .classes = 3}, 3);
  NetworkSetup twice(settings_of(layers), {.features = {4, 1, 1}, .classes = 3}, 4);
  twice.features = weighted.features;
  twice.features.insert(twice.features.end(), weighted.features.begin() + 4, weighted.features.begin() + 8);
  twice.labels = {weighted.labels[0], weighted.labels[1], weighted.labels[2], weighted.labels[1]};
  const std::vector<float> weights = {1, 2, 1};
  data::Batch batch = weighted.all();
  batch.weights = weights;
  kernels::LossSums sums, expected;
  weighted.model.loss_and_gradient(batch, 0.25F, weighted.state(), {weighted.gradient.view()}, sums);
  twice.model.loss_and_gradient(twice.all(), 0.25F, twice.state(), {twice.gradient.view()}, expected);
  CHECK(sums.loss == Approx(expected.loss).epsilon(1e-6));
  CHECK(sums.examples == 3);
  for (std::size_t i = 0; i < weighted.gradient.view().size(); ++i) {
    CHECK(weighted.gradient.view()[i] == Approx(twice.gradient.view()[i]).margin(0x1p-22));
  }
  // Evaluations have no weights.
  kernels::LossSums evaluated, plain;
  weighted.model.evaluate(batch, weighted.state(), evaluated);
  weighted.model.evaluate(weighted.all(), weighted.state(), plain);
  CHECK(evaluated.loss == plain.loss);
}

TEST_CASE("two classes with one output: accuracy, and the probabilities of both", "[model]") {
  NetworkSetup setup(settings_of({nn::dense(1)}, "sigmoid_cross_entropy"), {.features = {1, 1, 1}, .classes = 2}, 3);
  REQUIRE(setup.model.output_size() == 2);
  const auto& blocks = setup.model.layout().blocks();
  part(setup.theta.view(), blocks[0])[0] = 1;
  setup.features = {2, -1, 3};
  setup.labels = {1, 0, 0};
  kernels::LossSums sums;
  setup.model.evaluate(setup.all(), setup.state(), sums);
  CHECK(metric(setup.model.metrics(sums), "accuracy") == Approx(2.0 / 3));
  std::vector<float> outputs(6);
  setup.model.predict(setup.all(), setup.state(), outputs);
  for (std::size_t i = 0; i < 3; ++i) {
    const double one = 1 / (1 + std::exp(-static_cast<double>(setup.features[i])));
    CHECK(outputs[2 * i] == Approx(1 - one).epsilon(0x1p-20));
    CHECK(outputs[2 * i + 1] == Approx(one).epsilon(0x1p-20));
  }
}

}  // namespace
}  // namespace unisono::models
