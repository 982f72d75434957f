#include "linear/linear_model.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "../nn/network_trial.hpp"
#include "../nn/reference_backend.hpp"
#include "metric.hpp"
#include "network_model.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "value_of.hpp"

namespace unisono::models {
namespace {

constexpr std::size_t kRows = 12, kFeatures = 7;

/// Twelve rows of seven features of which a third are 0, as a table and as sparse rows, and targets of every kind.
struct Examples {
  Examples() {
    RandomStream random(11, Purpose::test);
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kFeatures; ++j) {
        const float x = (i + j) % 3 == 0 ? 0.0F : random.uniform(-1, 1);
        table.push_back(x);
        if (x == 0) continue;
        columns.push_back(static_cast<std::uint32_t>(j));
        values.push_back(x);
      }
      offsets.push_back(columns.size());
      signs.push_back(static_cast<float>(i % 2));
      classes.push_back(static_cast<float>(i % 4));
      targets.push_back(random.uniform(-2, 2));
    }
  }
  const std::vector<float>& targets_of(const std::string& loss) const {
    return loss == "squared" ? targets : loss == "softmax" ? classes : signs;
  }
  std::vector<float> table, values, signs, classes, targets;
  std::vector<std::uint32_t> columns;
  std::vector<std::uint64_t> offsets{0};
};

/// A linear model with θ at random, and its examples.
class LinearTrial {
 public:
  LinearTrial(const LinearSettings& settings, bool table, std::vector<std::int64_t> occurrences = {})
      : loss_(name_of(settings.loss, kLinearLosses)), table_(table), occurrences_(std::move(occurrences)) {
    const ModelInputs inputs{.kind = table ? data::SetKind::table : data::SetKind::sparse,
                             .features = {.channels = kFeatures},
                             .classes = loss_ == "softmax"   ? 4
                                        : loss_ == "squared" ? 0
                                                             : 2,
                             .target_size = loss_ == "squared" ? 1 : 0};
    model = std::make_unique<LinearModel>(
        settings, inputs,
        ModelContext{.backend = backend_,
                     .reducer = reducer_,
                     .occurrences = [this] { return std::span<const std::int64_t>(occurrences_); },
                     .training_examples = kRows});
    theta = Buffer(model->layout().size());
    gradient = Buffer(model->layout().size());
    model->initialise(0, state());
    labels_.assign(examples.targets_of(loss_).begin(), examples.targets_of(loss_).end());
    set_ = data::LabelledRows{.rows = {.offsets = examples.offsets,
                                       .columns = examples.columns,
                                       .values = examples.values,
                                       .width = kFeatures},
                              .targets = examples.targets_of(loss_)};
  }

  ModelState state() { return {.parameters = theta.view(), .statistics = {}}; }
  std::size_t outputs() const { return loss_ == "softmax" ? 4 : 1; }

  /// Rows 8 to 11, then 0 to 4; of a table as many from the first on.
  data::Batch batch() {
    data::Batch batch{.size = 9, .rank_step_size = 9};
    if (table_) {
      batch.features = std::span(examples.table).first(9 * kFeatures);
      if (loss_ == "squared") batch.targets = std::span(examples.targets).first(9);
      if (loss_ != "squared") batch.labels = std::span(labels_).first(9);
      if (!weights_.empty()) batch.weights = std::span(weights_).first(9);
      return batch;
    }
    batch.set = &set_;
    batch.ranges = ranges_;
    return batch;
  }
  std::vector<std::size_t> rows() const {
    if (table_) return {0, 1, 2, 3, 4, 5, 6, 7, 8};
    return {8, 9, 10, 11, 0, 1, 2, 3, 4};
  }
  data::Batch whole() {
    data::Batch all = batch();
    if (!table_) return all;
    all.features = examples.table;
    all.labels = all.labels.empty() ? all.labels : std::span<const std::int32_t>(labels_);
    all.targets = all.targets.empty() ? all.targets : View(examples.targets);
    all.weights = weights_;
    all.size = kRows;
    return all;
  }

  /// Gives row i of all twelve the weight i.
  void weigh(std::vector<float> weights) {
    weights_ = std::move(weights);
    std::get<data::LabelledRows>(set_).weights = weights_;
  }
  /// One row alone.
  data::Batch one(std::int64_t row) {
    const auto at = static_cast<std::size_t>(row);
    data::Batch batch{.size = 1, .rank_step_size = 1};
    if (table_) {
      batch.features = std::span(examples.table).subspan(at * kFeatures, kFeatures);
      if (loss_ == "squared") batch.targets = std::span(examples.targets).subspan(at, 1);
      if (loss_ != "squared") batch.labels = std::span(labels_).subspan(at, 1);
      return batch;
    }
    one_ = {{row, row + 1}};
    batch.set = &set_;
    batch.ranges = one_;
    return batch;
  }

  /// The weights and biases, in double: [features + 1][outputs], the last row for the biases.
  std::vector<double> read(View from) const {
    const auto& layout = model->layout();
    std::vector<double> all;
    for (const std::string name : {"linear.weight", "linear.bias"}) {
      const Block& block = layout.block(name);
      std::vector<float> canonical(static_cast<std::size_t>(block.size()));
      to_canonical(block, part(from, block), canonical);
      all.insert(all.end(), canonical.begin(), canonical.end());
    }
    return all;
  }
  void randomise() {
    RandomStream random(12, Purpose::test);
    for (const std::string name : {"linear.weight", "linear.bias"}) {
      const Block& block = model->layout().block(name);
      std::vector<float> canonical(static_cast<std::size_t>(block.size()));
      // Away from 0, where |w| has its kink.
      for (float& value : canonical) value = (random.below(2) == 0 ? -1.0F : 1.0F) * random.uniform(0.1F, 0.6F);
      from_canonical(block, canonical, part(theta.view(), block));
    }
  }

  Examples examples;
  std::unique_ptr<LinearModel> model;
  Buffer theta, gradient;

 private:
  std::string loss_;
  bool table_;
  std::vector<std::int64_t> occurrences_;
  std::vector<std::int32_t> labels_;
  std::vector<float> weights_;
  std::vector<data::ExampleRange> ranges_ = {{8, 12}, {0, 5}}, one_;
  data::ExampleSet set_;
  nn::ReferenceBackend backend_;
  LocalReducer reducer_;
};

/// ℓ of one row, by its definition.
double loss_of(const std::string& loss, const Examples& examples, std::size_t row, const std::vector<double>& w,
               std::size_t outputs) {
  std::vector<double> z(outputs);
  for (std::size_t k = 0; k < outputs; ++k) {
    z[k] = w[kFeatures * outputs + k];
    for (std::size_t j = 0; j < kFeatures; ++j)
      z[k] += static_cast<double>(examples.table[row * kFeatures + j]) * w[j * outputs + k];
  }
  const auto answer = static_cast<double>(examples.targets_of(loss)[row]);
  const double yz = (2 * answer - 1) * z[0];
  if (loss == "logistic") return std::log1p(std::exp(-yz));
  if (loss == "hinge") return std::max(0.0, 1 - yz);
  if (loss == "squared_hinge") return std::pow(std::max(0.0, 1 - yz), 2);
  if (loss == "squared") return (z[0] - answer) * (z[0] - answer) / 2;
  double sum = 0;
  for (const double one : z) sum += std::exp(one);
  return std::log(sum) - z[static_cast<std::size_t>(answer)];
}

/// scale · Σ (ℓ + l1 Σ|w| + l2/2 Σ w²)
double objective(const LinearSettings& settings, const LinearTrial& trial, const std::vector<double>& w, double scale) {
  double sum = 0;
  for (const std::size_t row : trial.rows()) {
    sum += loss_of(std::string(name_of(settings.loss, kLinearLosses)), trial.examples, row, w, trial.outputs());
    for (std::size_t i = 0; i < kFeatures * trial.outputs(); ++i)
      sum += settings.l1 * std::abs(w[i]) + settings.l2 / 2 * w[i] * w[i];
  }
  return scale * sum;
}

const std::vector<std::string> kLosses = {"logistic", "hinge", "squared_hinge", "squared", "softmax"};

}  // namespace

TEST_CASE("a linear model's gradient is that of its objective", "[linear]") {
  for (const std::string& loss : kLosses) {
    for (const double penalty : {0.0, 0.03}) {
      for (const bool table : {false, true}) {
        CAPTURE(loss, penalty, table);
        const LinearSettings settings{.loss = value_of(loss, kLinearLosses), .l1 = penalty, .l2 = 2 * penalty};
        LinearTrial trial(settings, table);
        trial.randomise();
        kernels::LossSums sums;
        constexpr float kScale = 0.125F;
        Index ready = 0;
        trial.model->loss_and_gradient(
            trial.batch(), kScale, trial.state(),
            {trial.gradient.view(), kernels::Write::overwrite, [&](Index first, Index last) { ready += last - first; }},
            sums);
        CHECK(ready == trial.model->layout().size());
        const std::vector<double> w = trial.read(trial.theta.view()), g = trial.read(trial.gradient.view());
        double losses = 0;
        for (const std::size_t row : trial.rows()) losses += loss_of(loss, trial.examples, row, w, trial.outputs());
        // Margins of eight terms below 1 are off by some ten roundings; nine losses follow them with a slope of at most
        // 3.
        CHECK(sums.loss == Approx(losses).margin(9 * 3 * 10 * 0x1p-24));
        CHECK(sums.examples == 9);
        for (std::size_t i = 0; i < w.size(); ++i) {
          constexpr double kDifference = 1e-5;  // an error of kStep², and of 1e-15 / kDifference
          std::vector<double> up = w, down = w;
          up[i] += kDifference;
          down[i] -= kDifference;
          const double slope =
              (objective(settings, trial, up, kScale) - objective(settings, trial, down, kScale)) / (2 * kDifference);
          CHECK(g[i] == Approx(slope).margin(9 * kScale * 3 * 20 * 0x1p-24));
        }
        // What is added to comes out twice.
        trial.model->loss_and_gradient(trial.batch(), kScale, trial.state(),
                                       {trial.gradient.view(), kernels::Write::add}, sums);
        const std::vector<double> twice = trial.read(trial.gradient.view());
        for (std::size_t i = 0; i < w.size(); ++i) CHECK(twice[i] == Approx(2 * g[i]).margin(9 * 0x1p-23));
      }
    }
  }
}

TEST_CASE("an update of one example is a step along its gradient", "[linear]") {
  for (const std::string& loss : kLosses) {
    for (const bool table : {false, true}) {
      for (const std::size_t row : {std::size_t{0}, std::size_t{4}, std::size_t{11}}) {
        CAPTURE(loss, table, row);
        // Of twelve examples so many have each feature: the penalties of those that an example has weigh 12 / n_j.
        const std::vector<std::int64_t> occurrences = {1, 2, 3, 4, 6, 12, 24};
        const LinearSettings settings{.loss = value_of(loss, kLinearLosses), .l1 = 0.01, .l2 = 0.02};
        LinearTrial trial(settings, table, occurrences);
        trial.randomise();
        const std::size_t outputs = trial.outputs();
        const std::vector<double> before = trial.read(trial.theta.view());
        const auto scratch = trial.model->make_scratch();
        kernels::LossSums sums;
        constexpr double kRate = 0.0625;
        const auto first = static_cast<std::int64_t>(row);
        trial.model->update_in_place(trial.whole(), {first, first + 1},
                                     {.rate = kRate, .parameters = trial.theta.view()}, *scratch, sums);
        const std::vector<double> after = trial.read(trial.theta.view());
        CHECK(sums.loss == Approx(loss_of(loss, trial.examples, row, before, outputs)).margin(3 * 10 * 0x1p-24));
        for (std::size_t i = 0; i < before.size(); ++i) {
          constexpr double kDifference = 1e-5;
          std::vector<double> up = before, down = before;
          up[i] += kDifference;
          down[i] -= kDifference;
          double slope =
              (loss_of(loss, trial.examples, row, up, outputs) - loss_of(loss, trial.examples, row, down, outputs)) /
              (2 * kDifference);
          const std::size_t j = i / outputs;
          const bool bias = j == kFeatures;
          // A table has all features in all rows; a sparse row only its own.
          const bool touched = bias || table || trial.examples.table[row * kFeatures + j] != 0;
          if (!bias) {
            const double spread = 12.0 / static_cast<double>(occurrences[j]);
            slope += spread * (settings.l2 * before[i] + (before[i] > 0 ? settings.l1 : -settings.l1));
          }
          // The first step of a weight of at least 0.1 does not come to 0.
          CHECK(after[i] == Approx(touched ? before[i] - kRate * slope : before[i]).margin(20 * 0x1p-24));
        }
      }
    }
  }
}

TEST_CASE("a linear model's gradient takes each example as often as its weight says", "[linear]") {
  // Weights 2, 0, 1, 2, 0, 1 …: twice, not at all, once.
  for (const std::string& loss : kLosses) {
    for (const bool table : {false, true}) {
      CAPTURE(loss, table);
      LinearTrial weighted({.loss = value_of(loss, kLinearLosses), .l2 = 0.03}, table),
          repeated({.loss = value_of(loss, kLinearLosses)}, table);
      weighted.randomise();
      repeated.randomise();
      weighted.weigh({2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1});
      kernels::LossSums sums, expected;
      const float scale = 0.125F;
      weighted.model->loss_and_gradient(weighted.batch(), scale, weighted.state(), {weighted.gradient.view()}, sums);
      std::vector<double> sum(weighted.read(weighted.gradient.view()).size());
      double losses = 0;
      for (const std::size_t row : weighted.rows()) {
        const auto first = static_cast<std::int64_t>(row);
        const double times = std::vector<double>{2, 0, 1}[row % 3];
        kernels::LossSums own;
        data::Batch one = repeated.one(first);
        repeated.model->loss_and_gradient(one, scale, repeated.state(), {repeated.gradient.view()}, own);
        const std::vector<double> g = repeated.read(repeated.gradient.view());
        for (std::size_t i = 0; i < g.size(); ++i) sum[i] += times * g[i];
        losses += times * own.loss;
      }
      // The penalty has no weights: λ w of nine examples.
      const std::vector<double> w = weighted.read(weighted.theta.view()), g = weighted.read(weighted.gradient.view());
      for (std::size_t i = 0; i < kFeatures * weighted.outputs(); ++i) {
        sum[i] += static_cast<double>(scale) * 9 * 0.03 * w[i];
      }
      for (std::size_t i = 0; i < g.size(); ++i) CHECK(g[i] == Approx(sum[i]).margin(9 * 3 * 4 * 0x1p-24));
      // The values of a table's row are added in another order where rows are added up four at a time.
      CHECK(sums.loss == Approx(losses).epsilon(table ? 4 * 0x1p-24 : 1e-12));
      CHECK(sums.examples == 9);
    }
  }
}

TEST_CASE("in place, an example's weight multiplies its step and its loss, and no penalty", "[linear]") {
  for (const std::string& loss : kLosses) {
    for (const bool table : {false, true}) {
      for (const bool locked : {false, true}) {
        CAPTURE(loss, table, locked);
        // Weights that are powers of two: rate · weight is exact, and so the same as another rate.
        const std::vector<float> weights = {2, 0, 0.5F, 1, 4, 0.25F, 2, 1, 0.5F, 4, 2, 1};
        LinearTrial weighted({.loss = value_of(loss, kLinearLosses)}, table),
            plain({.loss = value_of(loss, kLinearLosses)}, table);
        weighted.randomise();
        plain.randomise();
        weighted.weigh(weights);
        const auto scratch = weighted.model->make_scratch(), own = plain.model->make_scratch();
        RowLocks locks(16);
        kernels::LossSums sums;
        double losses = 0, squares = 0;
        std::int64_t correct = 0;
        weighted.model->update_in_place(
            weighted.whole(), {1, 12},
            {.rate = 0.125, .parameters = weighted.theta.view(), .locks = locked ? &locks : nullptr}, *scratch, sums);
        for (std::int64_t row = 1; row < 12; ++row) {
          const double weight = static_cast<double>(weights[static_cast<std::size_t>(row)]);
          kernels::LossSums one;
          plain.model->update_in_place(plain.whole(), {row, row + 1},
                                       {.rate = 0.125 * weight, .parameters = plain.theta.view()}, *own, one);
          losses += weight * one.loss;
          squares += one.squared_error;
          correct += one.correct;
        }
        CHECK(weighted.read(weighted.theta.view()) == plain.read(plain.theta.view()));
        CHECK(sums.loss == Approx(losses).epsilon(1e-12));
        CHECK(sums.squared_error == Approx(squares).epsilon(1e-12));
        CHECK(sums.correct == correct);
      }
    }
  }
  // With weights of 0 nothing is left but the penalty.
  LinearTrial shrunk({.loss = LinearLoss::logistic, .l2 = 0.5}, true, std::vector<std::int64_t>(kFeatures, 12));
  shrunk.randomise();
  shrunk.weigh(std::vector<float>(12, 0.0F));
  const std::vector<double> before = shrunk.read(shrunk.theta.view());
  const auto scratch = shrunk.model->make_scratch();
  kernels::LossSums sums;
  shrunk.model->update_in_place(shrunk.whole(), {0, 1}, {.rate = 0.125, .parameters = shrunk.theta.view()}, *scratch,
                                sums);
  const std::vector<double> after = shrunk.read(shrunk.theta.view());
  for (std::size_t i = 0; i < kFeatures; ++i) CHECK(after[i] == Approx(before[i] * (1 - 0.125 * 0.5)).margin(0x1p-23));
  CHECK(after.back() == before.back());
  CHECK(sums.loss == 0);
}

TEST_CASE("averaged SGD predicts with the plain mean of all iterates", "[linear]") {
  for (const std::string& loss : kLosses) {
    for (const bool table : {false, true}) {
      CAPTURE(loss, table);
      LinearTrial plain({.loss = value_of(loss, kLinearLosses)}, table),
          averaged({.loss = value_of(loss, kLinearLosses), .averaged = true}, table);
      const auto scratch = averaged.model->make_scratch();
      const auto own = plain.model->make_scratch();
      std::vector<double> sum;
      kernels::LossSums sums;
      constexpr std::int64_t kUpdates = 40;
      for (std::int64_t t = 0; t < kUpdates; ++t) {
        const data::ExampleRange one{t % 9, t % 9 + 1};
        plain.model->update_in_place(plain.batch(), one, {.rate = 0.25, .parameters = plain.theta.view()}, *own, sums);
        averaged.model->update_in_place(averaged.batch(), one,
                                        {.rate = 0.25, .examples_before = t, .parameters = averaged.theta.view()},
                                        *scratch, sums);
        const std::vector<double> w = plain.read(plain.theta.view());
        sum.resize(w.size());
        for (std::size_t i = 0; i < w.size(); ++i) sum[i] += w[i] / kUpdates;
      }
      CHECK(averaged.read(averaged.theta.view()) == plain.read(plain.theta.view()));
      kernels::LossSums evaluated;
      averaged.model->evaluate(averaged.batch(), averaged.state(), evaluated);
      double expected = 0;
      for (const std::size_t row : averaged.rows()) {
        expected += loss_of(loss, averaged.examples, row, sum, averaged.outputs());
      }
      // 40 updates, each rounded twice, in sums that weigh them by up to 40.
      CHECK(evaluated.loss == Approx(expected).epsilon(1e-5));
      kernels::LossSums plainly;
      plain.model->evaluate(plain.batch(), plain.state(), plainly);
      CHECK(plainly.loss != Approx(expected).epsilon(1e-3));
      Buffer gradient(averaged.model->layout().size());
      CHECK_THROWS_WITH(
          averaged.model->loss_and_gradient(averaged.batch(), 1, averaged.state(), {gradient.view()}, sums),
          Catch::Contains("model.averaged"));
    }
  }
}

TEST_CASE("an averaged model that was never updated is what it began as", "[linear]") {
  LinearTrial trial({.loss = LinearLoss::logistic, .averaged = true}, false);
  kernels::LossSums sums;
  trial.model->evaluate(trial.batch(), trial.state(), sums);
  CHECK(sums.loss == Approx(9 * std::log(2.0)));
}

TEST_CASE("a softmax model on a table is a network of one dense layer", "[linear]") {
  LinearTrial linear({.loss = LinearLoss::softmax}, true);
  nn::ReferenceBackend backend;
  LocalReducer reducer;
  const nn::LayerSettings layer = nn::dense(4, "initialiser = 'zeros'");
  NetworkModel network({.loss = nn::LossKind::softmax_cross_entropy, .label_smoothing = 0, .layers = {layer}},
                       {.features = {.channels = kFeatures}, .classes = 4}, {.backend = backend, .reducer = reducer});
  Buffer theta(network.layout().size()), gradient(network.layout().size());
  const ModelState state{theta.view(), {}};
  network.initialise(1, state);
  const auto& blocks = network.layout().blocks();
  REQUIRE(blocks.size() == 2);
  data::Batch batch = linear.batch();
  const std::vector<std::uint64_t> numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  batch.examples = numbers;
  // The network's weights are [classes, features], the linear model's [features, classes].
  const auto transposed = [&](View of_network) {
    std::vector<float> weight(4 * kFeatures), bias(4);
    to_canonical(blocks[0], part(of_network, blocks[0]), weight);
    to_canonical(blocks[1], part(of_network, blocks[1]), bias);
    std::vector<double> all(4 * (kFeatures + 1));
    for (std::size_t k = 0; k < 4; ++k) {
      for (std::size_t j = 0; j < kFeatures; ++j) all[j * 4 + k] = static_cast<double>(weight[k * kFeatures + j]);
      all[kFeatures * 4 + k] = static_cast<double>(bias[k]);
    }
    return all;
  };
  for (int step = 0; step < 5; ++step) {
    kernels::LossSums one, other;
    linear.model->loss_and_gradient(batch, 0.125F, linear.state(), {linear.gradient.view()}, one);
    network.loss_and_gradient(batch, 0.125F, state, {gradient.view()}, other);
    CHECK(one.loss == Approx(other.loss).epsilon(20 * 0x1p-24));
    CHECK(one.correct == other.correct);
    const auto a = linear.read(linear.gradient.view()), b = transposed(gradient.view());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(40 * 0x1p-24));
    for (std::size_t i = 0; i < linear.theta.view().size(); ++i) linear.theta.view()[i] -= linear.gradient.view()[i];
    for (std::size_t i = 0; i < theta.view().size(); ++i) theta.view()[i] -= gradient.view()[i];
  }
  CHECK(linear.read(linear.theta.view())[0] != 0);
}

TEST_CASE("predictions of a linear model", "[linear]") {
  for (const std::string& loss : kLosses) {
    for (const bool table : {false, true}) {
      CAPTURE(loss, table);
      LinearTrial trial({.loss = value_of(loss, kLinearLosses)}, table);
      trial.randomise();
      const auto outputs = static_cast<std::size_t>(trial.model->output_size());
      CHECK(outputs == (loss == "squared" ? 1 : loss == "softmax" ? 4 : 2));
      std::vector<float> predictions(9 * outputs);
      trial.model->predict(trial.batch(), trial.state(), predictions);
      const std::vector<double> w = trial.read(trial.theta.view());
      kernels::LossSums sums;
      trial.model->evaluate(trial.batch(), trial.state(), sums);
      std::int64_t correct = 0;
      const auto rows = trial.rows();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto row = std::span(predictions).subspan(i * outputs, outputs);
        const auto answer = static_cast<std::size_t>(trial.examples.targets_of(loss)[rows[i]]);
        const double one = loss_of(loss, trial.examples, rows[i], w, trial.outputs());
        if (loss == "squared") {
          const double error = static_cast<double>(row[0] - trial.examples.targets[rows[i]]);
          CHECK(error * error / 2 == Approx(one).margin(3 * 10 * 0x1p-24));
          continue;
        }
        correct += std::max_element(row.begin(), row.end()) - row.begin() == static_cast<std::ptrdiff_t>(answer);
        if (loss.ends_with("hinge")) {  // margins, of which one is the other's negative
          CHECK(row[0] == -row[1]);
          const double slack = std::max(0.0, 1 - static_cast<double>(row[answer]));
          CHECK((loss == "hinge" ? slack : slack * slack) == Approx(one).margin(4 * 10 * 0x1p-24));
          continue;
        }
        CHECK(std::accumulate(row.begin(), row.end(), 0.0) == Approx(1).margin(4 * 0x1p-24));
        for (const float p : row) CHECK((p > 0 && p < 1));
        CHECK(static_cast<double>(row[answer]) == Approx(std::exp(-one)).margin(20 * 0x1p-24));
      }
      if (loss != "squared") CHECK(sums.correct == correct);
    }
  }
}

TEST_CASE("a score of 0 is of the first class, wherever it is counted", "[linear]") {
  for (const std::string loss : {"logistic", "hinge", "squared_hinge", "softmax"}) {
    for (const bool table : {false, true}) {
      CAPTURE(loss, table);
      LinearTrial trial({.loss = value_of(loss, kLinearLosses)}, table);  // all weights are 0
      const auto outputs = static_cast<std::size_t>(trial.model->output_size());
      std::vector<float> predictions(9 * outputs);
      trial.model->predict(trial.batch(), trial.state(), predictions);
      std::int64_t correct = 0;
      const auto rows = trial.rows();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto row = std::span(predictions).subspan(i * outputs, outputs);
        const auto chosen = std::max_element(row.begin(), row.end()) - row.begin();
        CHECK(chosen == 0);
        correct += chosen == static_cast<std::ptrdiff_t>(trial.examples.targets_of(loss)[rows[i]]);
      }
      kernels::LossSums sums;
      trial.model->evaluate(trial.batch(), trial.state(), sums);
      CHECK(sums.correct == correct);
      CHECK(correct > 0);
    }
  }
}

/// Keeps what it is told.
class Kept final : public PredictionReader {
 public:
  void read(View all, View given, View margins) override {
    rows.insert(rows.end(), all.begin(), all.end());
    answers.insert(answers.end(), given.begin(), given.end());
    scores.insert(scores.end(), margins.begin(), margins.end());
  }
  std::vector<float> rows, answers, scores;
};

TEST_CASE("an evaluation tells the predictions, and the margins of two classes", "[linear]") {
  for (const std::string& loss : kLosses) {
    CAPTURE(loss);
    LinearTrial trial({.loss = value_of(loss, kLinearLosses)}, false);
    trial.randomise();
    kernels::LossSums sums, told;
    trial.model->evaluate(trial.batch(), trial.state(), sums);
    Kept kept;
    trial.model->evaluate_predictions(trial.batch(), trial.state(), told, kept);
    CHECK(told.loss == sums.loss);
    CHECK(told.correct == sums.correct);
    std::vector<float> predictions(9 * static_cast<std::size_t>(trial.model->output_size()));
    trial.model->predict(trial.batch(), trial.state(), predictions);
    CHECK(kept.rows == predictions);
    CHECK(kept.answers == answers_of(trial.batch()));
    CHECK(kept.scores.size() == (loss == "logistic" || loss.ends_with("hinge") ? 9U : 0U));
    if (loss == "hinge") CHECK(kept.scores[3] == predictions[7]);
  }
}

TEST_CASE("the loss decides between labels and targets of a table", "[linear]") {
  for (const std::string loss : {"squared", "logistic"}) {
    LinearTrial trial({.loss = value_of(loss, kLinearLosses)}, true);
    data::Batch one = trial.batch(), both = one;
    const std::vector<std::int32_t> labels = {1, 0, 1, 1, 0, 0, 1, 0, 1};
    if (loss == "squared") both.labels = labels;
    if (loss == "logistic") both.targets = std::span(trial.examples.targets).first(9);
    kernels::LossSums with_one, with_both;
    trial.model->evaluate(one, trial.state(), with_one);
    trial.model->evaluate(both, trial.state(), with_both);
    CHECK(with_one.loss == with_both.loss);
    const auto scratch = trial.model->make_scratch();
    kernels::LossSums trained;
    trial.model->update_in_place(both, {0, 1}, {.rate = 0, .parameters = trial.theta.view()}, *scratch, trained);
    CHECK(trained.loss == Approx(loss == "squared" ? std::pow(trial.examples.targets[0], 2) / 2 : std::log(2.0)));
  }
}

TEST_CASE("a batch of no examples has no loss, and a gradient of zeros", "[linear]") {
  for (const bool table : {false, true}) {
    LinearTrial trial({.loss = LinearLoss::logistic, .l2 = 0.1}, table);
    trial.randomise();
    std::fill(trial.gradient.view().begin(), trial.gradient.view().end(), 9.0F);
    data::Batch none = trial.batch();
    none.size = none.rank_step_size = 0;
    none.ranges = {};
    none.features = none.features.first(0);
    none.labels = none.labels.first(0);
    kernels::LossSums sums;
    trial.model->loss_and_gradient(none, 1, trial.state(), {trial.gradient.view()}, sums);
    trial.model->evaluate(none, trial.state(), sums);
    trial.model->predict(none, trial.state(), {});
    CHECK(sums.examples == 0);
    CHECK(std::count(trial.gradient.view().begin(), trial.gradient.view().end(), 0.0F) == trial.gradient.size());
  }
}

TEST_CASE("the smooth linear losses serve whole-batch methods, with penalties apart", "[linear]") {
  for (const std::string& loss : kLosses) {
    for (const bool table : {false, true}) {
      CAPTURE(loss, table);
      LinearTrial trial({.loss = value_of(loss, kLinearLosses), .l1 = 0.25, .l2 = 0.5}, table);
      trial.randomise();
      Convex& convex = *trial.model->convex();
      CHECK(convex.loss_vanishes_at_infinity() == (loss == "logistic" || loss == "softmax"));
      if (loss == "hinge") {
        CHECK_THROWS_WITH(convex.require_smooth(), Catch::Matchers::Contains("use model.loss = \"squared_hinge\""));
      } else {
        CHECK_NOTHROW(convex.require_smooth());
      }
      const Block& weights = trial.model->layout().block("linear.weight");
      const PenalisedRange expected{{weights.offset, weights.offset + weights.stored_size()}, 0.25, 0.5};
      CHECK(convex.penalties() == std::vector<PenalisedRange>{expected});
      // Without the penalties, which are those of nine examples.
      kernels::LossSums sums, of_data;
      Buffer data(trial.gradient.size());
      trial.model->loss_and_gradient(trial.batch(), 0.125F, trial.state(), {trial.gradient.view()}, sums);
      convex.add_data_gradient(trial.batch(), 0.125F, trial.theta.view(), data.view(), of_data);
      CHECK(of_data.loss == sums.loss);
      const std::vector<double> w = trial.read(trial.theta.view()), g = trial.read(data.view());
      const std::vector<double> whole = trial.read(trial.gradient.view());
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double penalty = i < kFeatures * trial.outputs() ? 0.5 * w[i] + (w[i] > 0 ? 0.25 : -0.25) : 0;
        CHECK(whole[i] == Approx(g[i] + 0.125 * 9 * penalty).margin(8 * 0x1p-24));
      }
    }
  }
}

TEST_CASE("without a bias there is none", "[linear]") {
  LinearTrial trial({.loss = LinearLoss::logistic, .bias = false}, false);
  CHECK(trial.model->layout().blocks().size() == 1);
  CHECK(trial.model->layout().parameters() == kFeatures);
  const auto scratch = trial.model->make_scratch();
  kernels::LossSums sums;
  trial.model->update_in_place(trial.batch(), {0, 5}, {.rate = 1, .parameters = trial.theta.view()}, *scratch, sums);
  trial.model->loss_and_gradient(trial.batch(), 1, trial.state(), {trial.gradient.view()}, sums);
  CHECK(sums.examples == 14);
}

TEST_CASE("losses that the data cannot serve are refused, and auto takes one that they can", "[linear]") {
  nn::ReferenceBackend backend;
  LocalReducer reducer;
  const auto make = [&](const std::string& loss, Index classes, Index targets) {
    const LinearModel model({.loss = value_of(loss, kLinearLosses)},
                            {.features = {.channels = 3}, .classes = classes, .target_size = targets},
                            {.backend = backend, .reducer = reducer});
    return model.summary(1).at(0).kind;
  };
  CHECK(make("auto", 2, 0) == "logistic");
  CHECK(make("auto", 3, 0) == "softmax");
  CHECK(make("auto", 0, 1) == "squared");
  CHECK(make("softmax", 2, 0) == "softmax");
  CHECK(make("squared", 2, 1) == "squared");
  CHECK_THROWS_WITH(make("auto", 0, 0),
                    "model.loss = \"auto\": the data set has neither labels nor one target per example");
  CHECK_THROWS_WITH(make("auto", 0, 2), Catch::Contains("neither labels nor one target"));
  CHECK_THROWS_WITH(make("squared", 2, 0), Catch::Contains("needs one target per example"));
  CHECK_THROWS_WITH(make("hinge", 3, 0),
                    "model.loss = \"hinge\": it needs two classes, but the data set has 3; use \"softmax\"");
  CHECK_THROWS_WITH(make("logistic", 0, 1),
                    Catch::Contains("needs labels, but the data set has none; use \"squared\""));
}

TEST_CASE("mini-batches are refused where every example makes a step", "[linear]") {
  LinearSettings settings{.loss = LinearLoss::softmax};
  settings.mini_batch = 2;
  CHECK_THROWS_WITH(LinearTrial(settings, true),
                    Catch::Contains("model.mini_batch: softmax makes a step for each example"));
}

TEST_CASE("metrics of a linear model", "[linear]") {
  LinearTrial classifier({.loss = LinearLoss::logistic}, false), regression({.loss = LinearLoss::squared}, false);
  const kernels::LossSums sums{
      .loss = 6, .examples = 12, .correct = 9, .squared_error = 3, .absolute_error = 24, .values = 12};
  CHECK(metric(classifier.model->metrics(sums), "loss") == 0.5);
  CHECK(metric(classifier.model->metrics(sums), "accuracy") == 0.75);
  CHECK(classifier.model->metrics(sums).size() == 2);
  CHECK(metric(regression.model->metrics(sums), "rmse") == 0.5);
  CHECK(metric(regression.model->metrics(sums), "mae") == 2);
  CHECK(std::isnan(metric(classifier.model->metrics({}), "loss")));
}

}  // namespace unisono::models
