#include "unisono/models/objective.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "../data/support.hpp"
#include "../nn/network_trial.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::models {
namespace {

constexpr std::int64_t kExamples = 23, kFeatures = 6, kClasses = 3;

/// 23 examples of 6 features, three classes and weights, as a table or as sparse rows.
std::unique_ptr<data::Dataset> open_examples(const std::string& path, bool sparse) {
  {
    data::hdf5::File file(path, data::hdf5::File::Mode::create);
    const auto values = nn::generic_values(kExamples * kFeatures, 1);
    std::vector<std::int64_t> labels;
    std::vector<float> weights;
    for (std::int64_t i = 0; i < kExamples; ++i) {
      labels.push_back((5 * i + 2) % kClasses);
      weights.push_back(0.5F + static_cast<float>(i % 4) / 4);
    }
    if (sparse) {
      std::vector<std::uint64_t> indptr{0};
      std::vector<std::uint32_t> indices;
      for (std::int64_t i = 0; i < kExamples; ++i) {
        for (std::uint32_t j = 0; j < kFeatures; ++j) indices.push_back(j);
        indptr.push_back(indices.size());
      }
      file.write("train/features/indptr", indptr);
      file.write("train/features/indices", indices);
      file.write("train/features/data", values);
      file.write_attribute("train/features", "columns", kFeatures);
    } else {
      file.create<float>("train/features", {kExamples, kFeatures});
      file.write_rows("train/features", 0, kExamples, values.data());
    }
    file.write("train/labels", labels);
    if (!sparse) file.write("train/weights", weights);  // which sparse rows cannot have
    file.write_attribute("", "classes", kClasses);
  }
  data::DataSettings settings;
  settings.path = path;
  settings.normalization = data::NormalizationKind::none;
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

/// An objective over the examples with θ at generic values.
struct Setup {
  Setup(const std::string& path, const ModelSettings& settings, ObjectiveTerms terms, bool sparse = false)
      : set(open_examples(path, sparse)),
        backend(kernels::make_cpu_backend(1)),
        model(make_model(settings,
                         {.kind = set->info().kind,
                          .features = set->info().features,
                          .row_values = set->info().row_values,
                          .classes = kClasses},
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

  double value() {
    double sum = 0;
    for (int p = 0; p < objective.portions(); ++p) sum += objective.value(p, state());
    return sum;
  }
  /// g = ∇f. \return f
  double value_and_gradient() {
    double sum = 0;
    for (int p = 0; p < objective.portions(); ++p) {
      sum += objective.value_and_gradient(p, state(), gradient.view(),
                                          p == 0 ? kernels::Write::overwrite : kernels::Write::add);
    }
    return sum;
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
void check_slope(Setup& setup) {
  const double f = setup.value_and_gradient();
  const std::vector<float> start(setup.theta.view().begin(), setup.theta.view().end());
  Buffer direction(setup.theta.size());
  setup.fill(direction, 9);
  const auto slope_at = [&](float step) {
    const auto at = [&](float by) {
      for (std::size_t i = 0; i < start.size(); ++i) setup.theta.view()[i] = start[i] + by * direction.view()[i];
      return setup.value();
    };
    return (at(step) - at(-step)) / (2 * static_cast<double>(step));
  };
  // A difference over steps h is wrong by c h² and by the rounding of two values: some float operations each, of which
  // the largest terms are about f.
  const double wide = slope_at(0.03125F), narrow = slope_at(0.015625F);
  const double rounding = 64 * 6e-8 * std::abs(f) / 0.015625;
  CHECK(dot(setup.gradient.view(), direction.view()) == Approx(narrow).margin(std::abs(wide - narrow) + rounding));
  CHECK(std::abs(narrow) > 20 * (std::abs(wide - narrow) + rounding));  // a slope that another function has not
  std::ranges::copy(start, setup.theta.view().begin());
}

}  // namespace

TEST_CASE("an objective's gradient is its slope: penalties, weights of examples and of classes", "[objective]") {
  const test::TempDir folder;
  SECTION("network") {
    Setup setup(folder / "set.h5", network(kSmooth), kTerms);
    check_slope(setup);
  }
  SECTION("network with dropout") {
    Setup setup(folder / "set.h5", network({nn::dense(8), nn::layer("tanh"), nn::dropout(0.5), nn::dense(3)}), kTerms);
    check_slope(setup);
  }
  SECTION("linear, table") {
    Setup setup(folder / "set.h5", linear(0.125, 0.5), kTerms);
    check_slope(setup);
  }
  SECTION("linear, sparse rows") {
    Setup setup(folder / "set.h5", linear(0.125, 0.5), kTerms, /*sparse=*/true);
    check_slope(setup);
  }
}

TEST_CASE("a portion's value has the same bits with and without the gradient", "[objective]") {
  const test::TempDir folder;
  const std::vector<nn::LayerSettings> normed = {nn::dense(8), nn::layer("batch_norm"), nn::layer("relu"),
                                                 nn::dropout(0.5), nn::dense(3)};
  ObjectiveTerms terms = kTerms;
  terms.portions = 4;
  for (const ModelSettings& settings : {network(kSmooth), network(normed), linear(0.125, 0.5)}) {
    Setup setup(folder / "set.h5", settings, terms);
    for (int portion = 0; portion < terms.portions; ++portion) {
      const std::vector<float> statistics(setup.statistics.view().begin(), setup.statistics.view().end());
      const double value = setup.objective.value(portion, setup.state());
      CHECK(std::ranges::equal(statistics, setup.statistics.view()));
      CHECK(setup.objective.value_and_gradient(portion, setup.state(), setup.gradient.view(),
                                               kernels::Write::overwrite) == value);
    }
  }
}

TEST_CASE("portions add up to the whole", "[objective]") {
  const test::TempDir folder;
  for (const ModelSettings& settings : {network(kSmooth), linear(0.125, 0.5)}) {
    Setup whole(folder / "whole.h5", settings, kTerms);
    const double value = whole.value_and_gradient();
    for (const int portions : {2, 5, 23, 30}) {  // of 30 some have no example
      INFO(portions << " portions");
      ObjectiveTerms terms = kTerms;
      terms.portions = portions;
      Setup setup(folder / "parts.h5", settings, terms);
      // Losses are added in another order, in double; gradients in float: 23 examples' and as many portions' decay.
      CHECK(setup.value_and_gradient() == Approx(value).epsilon(1e-6));
      const auto largest =
          std::abs(*std::ranges::max_element(whole.gradient.view(), {}, [](float g) { return std::abs(g); }));
      for (std::size_t i = 0; i < whole.gradient.view().size(); ++i) {
        CHECK(std::abs(setup.gradient.view()[i] - whole.gradient.view()[i]) <= 64 * 6e-8F * largest);
      }
    }
  }
}

TEST_CASE("frozen blocks bear no penalty, biases only where they are to", "[objective]") {
  const test::TempDir folder;
  const auto decay_at_zero_loss = [&](bool biases) {
    ObjectiveTerms terms = kTerms, plain = kTerms;
    terms.decay_biases_and_norms = biases;
    plain.weight_decay = 0;
    Setup with(folder / "with.h5", network(kSmooth), terms), without(folder / "without.h5", network(kSmooth), plain);
    return with.value() - without.value();
  };
  Setup setup(folder / "set.h5", network(kSmooth), kTerms);
  double weights = 0, all = 0;
  for (const Block& block : setup.model->layout().blocks()) {
    const double squares = dot(part(View(setup.theta.view()), block), part(View(setup.theta.view()), block));
    all += squares;
    if (block.role == Role::weight) weights += squares;
  }
  CHECK(decay_at_zero_loss(false) == Approx(0.125 * weights));
  CHECK(decay_at_zero_loss(true) == Approx(0.125 * all));
}

}  // namespace unisono::models
