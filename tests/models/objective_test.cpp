#include "unisono/models/objective.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "../data/support.hpp"
#include "../nn/network_trial.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::models {
namespace {

constexpr std::int64_t kExamples = 23, kFeatureCount = 6, kClasses = 3;

using Change = std::function<void(data::DataSettings&)>;

/// 23 examples of 6 features (images of 2 × 3), with classes and weights, as a table or as sparse rows.
std::unique_ptr<data::Dataset> open_examples(const std::string& path, std::int64_t classes, bool sparse,
                                             const Change& change) {
  {
    data::hdf5::File file(path, data::hdf5::File::Mode::create);
    const auto values = nn::generic_values(kExamples * kFeatureCount, 1);
    std::vector<std::int64_t> labels;
    std::vector<float> weights;
    for (std::int64_t i = 0; i < kExamples; ++i) {
      labels.push_back((5 * i + 2) % classes);
      weights.push_back(0.5F + static_cast<float>(i % 4) / 4);
    }
    if (sparse) {
      std::vector<std::uint64_t> indptr{0};
      std::vector<std::uint32_t> indices;
      for (std::int64_t i = 0; i < kExamples; ++i) {
        for (std::uint32_t j = 0; j < kFeatureCount; ++j) indices.push_back(j);
        indptr.push_back(indices.size());
      }
      file.write("train/features/indptr", indptr);
      file.write("train/features/indices", indices);
      file.write("train/features/data", values);
      file.write_attribute("train/features", "columns", kFeatureCount);
    } else {
      file.create<float>("train/features", {kExamples, 1, 2, kFeatureCount / 2});
      file.write_rows("train/features", 0, kExamples, values.data());
    }
    file.write("train/labels", labels);
    if (!sparse) file.write("train/weights", weights);  // which sparse rows cannot have
    file.write_attribute("", "classes", classes);
  }
  data::DataSettings settings;
  settings.path = path;
  settings.normalization = data::NormalizationKind::none;
  if (change) change(settings);
  return data::open_dataset(settings, 1);
}

ModelSettings network(std::vector<nn::LayerSettings> layers) {
  ModelSettings settings;
  settings.network.loss = nn::LossKind::softmax_cross_entropy;
  settings.network.label_smoothing = 0.1;
  settings.network.layers = std::move(layers);
  return settings;
}

ModelSettings linear(double l1, double l2) {
  ModelSettings settings;
  settings.kind = "linear";
  settings.linear.loss = LinearLoss::softmax;
  settings.linear.l1 = l1;
  settings.linear.l2 = l2;
  return settings;
}

ModelSettings logistic() {
  ModelSettings settings = linear(0, 0);
  settings.linear.loss = LinearLoss::logistic;
  return settings;
}

std::int64_t classes_of(const ModelSettings& settings) {
  return settings.kind == "linear" && settings.linear.loss == LinearLoss::logistic ? 2 : kClasses;
}

/// An objective over the examples with θ at generic values.
struct ObjectiveSetup {
  ObjectiveSetup(const std::string& path, const ModelSettings& settings, ObjectiveTerms terms, bool sparse = false,
                 const Change& change = {})
      : set(open_examples(path, classes_of(settings), sparse, change)),
        backend(kernels::make_cpu_backend(1)),
        model(make_model(settings,
                         {.kind = set->info().kind,
                          .features = set->info().features,
                          .row_values = set->info().row_values,
                          .classes = classes_of(settings)},
                         {.backend = *backend, .reducer = reducer, .seed = 3})),
        theta(model->layout().size()),
        statistics(model->statistics_layout().size()),
        gradient(model->layout().size()),
        objective(*model, *backend, *set, terms) {
    model->initialise(7, state());
    fill(theta, 5);
  }
  ModelState state() { return {theta.view(), statistics.view()}; }

  /// Sets every block's numbers, and leaves what lies between blocks.
  void fill(Buffer& vector, std::uint64_t seed) const {
    for (const Block& block : model->layout().blocks()) {
      from_canonical(block, nn::generic_values(static_cast<std::size_t>(block.size()), seed++, -0.5F, 0.5F),
                     part(vector.view(), block));
    }
  }

  /// gradient = the sum of all portions'. \return Σ losses / n
  double data_term() {
    std::ranges::fill(gradient.view(), 0.0F);
    kernels::LossSums sums;
    for (int p = 0; p < objective.portions(); ++p) {
      CHECK(objective.add_gradient(p, state(), gradient.view(), sums, [](Index) { return true; }));
    }
    CHECK(sums.examples == kExamples);
    return sums.loss / kExamples;
  }
  /// gradient = ∇f. \return f
  double value_and_gradient() {
    double value = data_term();
    for (const PenalisedRange& one : objective.penalties()) {
      for (auto i = static_cast<std::size_t>(one.range.first); i < static_cast<std::size_t>(one.range.last); ++i) {
        const double x = theta.view()[i];
        value += one.l1 * std::abs(x) + one.l2 / 2 * x * x;
        gradient.view()[i] += static_cast<float>(one.l2 * x + (x > 0 ? one.l1 : x < 0 ? -one.l1 : 0));
      }
    }
    return value;
  }

  std::unique_ptr<data::Dataset> set;
  LocalReducer reducer;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<Model> model;
  Buffer theta, statistics, gradient;
  Objective objective;
};

const std::vector<nn::LayerSettings> kSmooth = {nn::dense(8), nn::layer("tanh"), nn::dense(3)};
const ObjectiveTerms kTerms{
    .portions = 1, .batch_size = 5, .class_weights = {1, 2, 0.5F}, .weight_decay = 0.25, .delivery = {}};

double dot(View a, View b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// The slope of f along a direction, against what the gradient says.
void check_slope(ObjectiveSetup& setup) {
  const double f = setup.value_and_gradient();
  const std::vector<float> gradient(setup.gradient.view().begin(), setup.gradient.view().end());
  const std::vector<float> start(setup.theta.view().begin(), setup.theta.view().end());
  Buffer direction(setup.theta.size());
  setup.fill(direction, 9);
  const auto slope_at = [&](float step) {
    const auto at = [&](float by) {
      for (std::size_t i = 0; i < start.size(); ++i) setup.theta.view()[i] = start[i] + by * direction.view()[i];
      return setup.value_and_gradient();
    };
    return (at(step) - at(-step)) / (2 * static_cast<double>(step));
  };
  // A difference over steps h is wrong by c h² and by the rounding of two values: some float operations each, of which
  // the largest terms are about f.
  const double wide = slope_at(0.03125F), narrow = slope_at(0.015625F);
  const double rounding = 64 * 6e-8 * std::abs(f) / 0.015625;
  CHECK(dot(gradient, direction.view()) == Approx(narrow).margin(std::abs(wide - narrow) + rounding));
  CHECK(std::abs(narrow) > 20 * (std::abs(wide - narrow) + rounding));  // a slope that another function has not
  std::ranges::copy(start, setup.theta.view().begin());
}

/// max |a − b| / max |b|
double difference(View a, View b) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return most / largest;
}

}  // namespace

TEST_CASE("an objective's gradient is its slope: penalties, weights of examples and of classes", "[objective]") {
  const test::TempDir folder;
  SECTION("network") {
    ObjectiveSetup setup(folder / "set.h5", network(kSmooth), kTerms);
    check_slope(setup);
  }
  SECTION("linear, table") {
    ObjectiveSetup setup(folder / "set.h5", linear(0.125, 0.5), kTerms);
    check_slope(setup);
  }
  SECTION("linear, sparse rows") {
    ObjectiveSetup setup(folder / "set.h5", linear(0.125, 0.5), kTerms, /*sparse=*/true);
    check_slope(setup);
  }
}

TEST_CASE("portions add up to the whole", "[objective]") {
  const test::TempDir folder;
  for (const ModelSettings& settings : {network(kSmooth), linear(0.125, 0.5)}) {
    ObjectiveSetup whole(folder / "whole.h5", settings, kTerms);
    const double value = whole.data_term();
    for (const int portions : {2, 5, 23, 30}) {  // of 30 some have no example
      INFO(portions << " portions");
      ObjectiveTerms terms = kTerms;
      terms.portions = portions;
      ObjectiveSetup setup(folder / "parts.h5", settings, terms);
      // Losses are added in another order, in double; gradients of 23 examples in float.
      CHECK(setup.data_term() == Approx(value).epsilon(1e-6));
      CHECK(difference(setup.gradient.view(), whole.gradient.view()) <= 64 * 6e-8);
    }
  }
}

TEST_CASE("a portion of examples that lie in memory gives the same as one of copies", "[objective]") {
  const test::TempDir folder;
  for (const ModelSettings& settings : {network(kSmooth), linear(0.125, 0.5)}) {
    ObjectiveSetup in_place(folder / "set.h5", settings, kTerms);
    ObjectiveSetup streamed(folder / "other.h5", settings, kTerms, /*sparse=*/false,
                            [](data::DataSettings& with) { with.reader = data::Reader::streaming; });
    CHECK(in_place.data_term() == Approx(streamed.data_term()).epsilon(1e-12));
    CHECK(difference(in_place.gradient.view(), streamed.gradient.view()) <= 8 * 6e-8);
  }
}

TEST_CASE("products with the Hessian are differences of gradients, over portions and weights", "[objective]") {
  const test::TempDir folder;
  ObjectiveTerms terms = kTerms;
  terms.portions = 3;
  for (const bool sparse : {false, true}) {
    ObjectiveSetup setup(folder / "set.h5", linear(0, 0), terms, sparse);
    Buffer direction(setup.theta.size()), product(setup.theta.size()), quotient(setup.theta.size());
    setup.fill(direction, 9);
    for (int p = 0; p < 3; ++p) {
      CHECK(setup.objective.add_hessian_product(p, setup.state(), direction.view(), product.view(), {}));
    }
    constexpr float kStep = 0.015625F;
    for (const float sign : {1.0F, -1.0F}) {
      setup.fill(setup.theta, 5);
      for (Index i = 0; i < direction.size(); ++i) setup.theta.data()[i] += sign * kStep * direction.data()[i];
      setup.data_term();
      for (Index i = 0; i < direction.size(); ++i) quotient.data()[i] += sign * setup.gradient.data()[i] / (2 * kStep);
    }
    // Of the third derivative there is kStep² / 6, and gradients are rounded some 30 times.
    CHECK(difference(product.view(), quotient.view()) <= 0.015625 * 0.015625 + 30 * 6e-8 / 0.015625);
  }
}

TEST_CASE("a Hessian matrix of portions times a vector is the product with the Hessian", "[objective]") {
  const test::TempDir folder;
  ObjectiveTerms terms = kTerms;
  terms.portions = 3;
  for (const bool sparse : {false, true}) {
    ObjectiveSetup setup(folder / "set.h5", logistic(), terms, sparse);
    CHECK(std::isfinite(setup.objective.hessian_cost()));
    const Index n = setup.theta.size();
    Buffer direction(n), product(n), matrix(n * n), times(n);
    setup.fill(direction, 9);
    for (int p = 0; p < 3; ++p) {
      CHECK(setup.objective.add_hessian_product(p, setup.state(), direction.view(), product.view(), {}));
      CHECK(setup.objective.add_hessian(p, setup.state(), matrix.view(), {}));
    }
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) {
        times.data()[i] += matrix.data()[std::max(i, j) * n + std::min(i, j)] * direction.data()[j];
      }
    }
    CHECK(difference(product.view(), times.view()) <= 30 * 6e-8);  // sums are rounded some 30 times
  }
}

TEST_CASE("passes of a network over a portion are about equally large, and whole vectors where possible",
          "[objective]") {
  CHECK(network_batch(312, 512) == 312 + 8);  // all of them in one pass
  CHECK(network_batch(512, 512) == 512);
  CHECK(network_batch(513, 512) == 272);
  CHECK(network_batch(1875, 512) == 480);
  CHECK(network_batch(23, 5) == 5);
  CHECK(network_batch(0, 512) >= 1);
}

TEST_CASE("a portion can be stopped after each batch", "[objective]") {
  const test::TempDir folder;
  ObjectiveSetup setup(folder / "set.h5", network(kSmooth), kTerms);
  std::vector<Index> seen;
  kernels::LossSums sums;
  const auto until = [&](std::size_t batches) {
    return setup.objective.add_gradient(0, setup.state(), setup.gradient.view(), sums, [&, batches](Index examples) {
      seen.push_back(examples);
      return seen.size() < batches;
    });
  };
  CHECK_FALSE(until(2));
  CHECK(seen == std::vector<Index>{5, 5});
  seen.clear();
  CHECK(until(100));
  CHECK(seen == std::vector<Index>{5, 5, 5, 5, 3});
  CHECK(setup.objective.add_gradient(0, setup.state(), setup.gradient.view(), sums, {}));
}

TEST_CASE("frozen blocks bear no penalty, biases only where they are to; penalties on one range are added",
          "[objective]") {
  const test::TempDir folder;
  const auto elements = [&](const ModelSettings& settings, bool biases) {
    ObjectiveTerms terms = kTerms;
    terms.decay = biases ? DecayRule::all : DecayRule::weights;
    ObjectiveSetup setup(folder / "set.h5", settings, terms);
    std::vector<std::array<double, 2>> all(static_cast<std::size_t>(setup.theta.size()));
    Index last = 0;
    for (const PenalisedRange& one : setup.objective.penalties()) {
      CHECK(one.range.first >= last);
      last = one.range.last;
      for (auto i = static_cast<std::size_t>(one.range.first); i < static_cast<std::size_t>(one.range.last); ++i) {
        all[i] = {one.l1, one.l2};
      }
    }
    for (const Block& block : setup.model->layout().blocks()) {
      const bool linear = settings.kind == "linear" && block.role == Role::weight;
      const bool decays = block.role == Role::weight || biases;
      const std::array<double, 2> expected{linear ? 0.125 : 0, (linear ? 0.5 : 0) + (decays ? 0.25 : 0)};
      CHECK(all[static_cast<std::size_t>(block.offset)] == expected);
    }
  };
  elements(network(kSmooth), false);
  elements(network(kSmooth), true);
  elements(linear(0.125, 0.5), false);
  elements(linear(0.125, 0.5), true);
}

TEST_CASE("what is no function of the parameters alone is refused by name", "[objective]") {
  using Catch::Matchers::Contains;
  const test::TempDir folder;
  const auto objective = [&](const ModelSettings& settings) {
    ObjectiveSetup setup(folder / "set.h5", settings, kTerms);
  };
  CHECK_THROWS_WITH(objective(network({nn::dense(8), nn::layer("tanh"), nn::dropout(0.5), nn::dense(3)})),
                    Contains("'dropout1' draws random numbers"));
  CHECK_NOTHROW(objective(network({nn::dense(8), nn::dropout(0), nn::dense(3)})));
  CHECK_THROWS_WITH(objective(network({nn::dense(8), nn::layer("batch_norm"), nn::dense(3)})),
                    Contains("'batch_norm1' uses statistics of the batch"));
  const Change flipped = [](data::DataSettings& settings) { settings.augmentation.horizontal_flip = true; };
  CHECK_THROWS_WITH(ObjectiveSetup(folder / "set.h5", network(kSmooth), kTerms, /*sparse=*/false, flipped),
                    Contains("[data.augmentation]"));
  ModelSettings averaged = linear(0, 0);
  averaged.linear.averaged = true;
  CHECK_THROWS_WITH(objective(averaged), Contains("model.averaged"));
}

}  // namespace unisono::models
