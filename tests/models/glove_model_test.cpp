#include "words/glove_model.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "../nn/reference_backend.hpp"

namespace unisono::models {
namespace {

class GloveTrial {
 public:
  explicit GloveTrial(const GloveSettings& settings, double learning_rate = 0.05)
      : model(settings, {.kind = data::SetKind::cooccurrences, .rows = 3, .columns = 3},
              {.backend = backend_, .reducer = reducer_, .update_rule = "adagrad", .learning_rate = learning_rate}),
        theta(model.layout().size()) {
    model.initialise(5, state());
  }
  ModelState state() { return {.parameters = theta.view(), .statistics = {}}; }
  std::vector<double> read(const std::string& name) const {
    const Block& block = model.layout().block(name);
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    to_canonical(block, part(theta.view(), block), values);
    return {values.begin(), values.end()};
  }

 private:
  nn::ReferenceBackend backend_;
  LocalReducer reducer_;

 public:
  GloveModel model;
  Buffer theta;
};

}  // namespace

TEST_CASE("GloVe's loss is its formula's", "[glove]") {
  GloveTrial trial({.dimension = 4, .x_max = 10, .alpha = 0.5});
  const std::vector<SparseEntry> entries = {{0, 2, 5}, {1, 1, 40}, {2, 0, 0.25F}};
  const data::ExampleSet set = data::SparseEntries(entries);
  const std::vector<data::ExampleRange> ranges = {{1, 3}, {0, 1}};
  const auto w = trial.read("words.weight"), v = trial.read("contexts.weight"), b = trial.read("words.bias"),
             d = trial.read("contexts.bias");
  double expected = 0;
  for (const SparseEntry& entry : entries) {
    double error = b[entry.row] + d[entry.column] - std::log(static_cast<double>(entry.value));
    for (std::size_t k = 0; k < 4; ++k) error += w[entry.row * 4 + k] * v[entry.column * 4 + k];
    expected += std::min(1.0, std::sqrt(static_cast<double>(entry.value) / 10)) * error * error / 2;
  }
  kernels::LossSums sums;
  trial.model.evaluate({.size = 3, .set = &set, .ranges = ranges}, trial.state(), sums);
  CHECK(sums.examples == 3);
  CHECK(sums.loss == Approx(expected).epsilon(1e-12));
  CHECK(trial.model.metrics(sums).at(0).value == Approx(expected / 3));
}

TEST_CASE("one step of GloVe is Adagrad's, with sums that begin at 1/η²", "[glove]") {
  constexpr double kEta = 0.05, kRate = 0.02;  // the schedule has come to 2/5 of the learning rate
  GloveTrial trial({.dimension = 4, .x_max = 10, .alpha = 0.75}, kEta);
  const auto before = trial.read("words.weight"), context = trial.read("contexts.weight"),
             bias = trial.read("words.bias"), other = trial.read("contexts.bias");
  CHECK(trial.read("words.weight_squares")[5] == Approx(1 / (kEta * kEta)));
  CHECK(trial.read("contexts.bias_squares")[2] == Approx(1 / (kEta * kEta)));
  const std::vector<SparseEntry> entries = {{2, 1, 3}};
  const data::ExampleSet set = data::SparseEntries(entries);
  const auto scratch = trial.model.make_scratch();
  kernels::LossSums sums;
  trial.model.update_in_place({.size = 1, .set = &set}, {0, 1}, {.rate = kRate, .parameters = trial.theta.view()},
                              *scratch, sums);
  double error = bias[2] + other[1] - std::log(3.0);
  for (std::size_t k = 0; k < 4; ++k) error += before[8 + k] * context[4 + k];
  const double slope = std::pow(0.3, 0.75) * error;
  // w − s g / √G with s = kRate / kEta and √G = 1 / kEta: a step of kRate · g, at first.
  const auto after = trial.read("words.weight"), squares = trial.read("words.weight_squares");
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double g = i / 4 == 2 ? slope * context[4 + i % 4] : 0;
    CHECK(after[i] == Approx(before[i] - kRate * g).margin(1e-6));
    CHECK(squares[i] == Approx(1 / (kEta * kEta) + g * g).epsilon(1e-6));
  }
  CHECK(trial.read("words.bias")[2] == Approx(bias[2] - kRate * slope).margin(1e-6));
  CHECK(trial.read("contexts.bias")[1] == Approx(other[1] - kRate * slope).margin(1e-6));
  CHECK(trial.read("contexts.bias")[0] == other[0]);
}

TEST_CASE("GloVe's vectors begin at ±½/D, and a word's is the sum of two", "[glove]") {
  const GloveTrial trial({.dimension = 4});
  for (const std::string name : {"words.weight", "contexts.weight", "words.bias", "contexts.bias"}) {
    for (const double value : trial.read(name)) CHECK(std::abs(value) <= 0.125);
  }
  CHECK(trial.read("words.weight") != trial.read("contexts.weight"));
  const auto tables = trial.model.vectors({});
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].parts.size() == 2);
  CHECK(trial.model.layout().parameters() == 2 * 3 * 5);
  CHECK(trial.model.layout().size() == 2 * 3 * 32);
}

}  // namespace unisono::models
