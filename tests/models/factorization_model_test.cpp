#include "factorization/factorization_model.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "../nn/reference_backend.hpp"
#include "metric.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

class FactorTrial {
 public:
  FactorTrial(const FactorizationSettings& settings, Index users, Index items, const std::string& rule = "sgd",
              std::uint64_t seed = 7, std::vector<std::int64_t> counts = {})
      : model(settings, {.kind = data::SetKind::ratings, .rows = users, .columns = items, .mean_value = 3.5},
              {.backend = backend_,
               .reducer = reducer_,
               .update_rule = rule,
               .occurrences = [&] { return std::span<const std::int64_t>(counts); }}),
        theta(model.layout().size()) {
    model.initialise(seed, state());
  }
  ModelState state() { return {.parameters = theta.view(), .statistics = {}}; }
  /// A block's numbers, in order.
  std::vector<float> read(const std::string& name) const {
    const Block& block = model.layout().block(name);
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    to_canonical(block, part(theta.view(), block), values);
    return values;
  }
  void write(const std::string& name, const std::vector<float>& values) {
    const Block& block = model.layout().block(name);
    from_canonical(block, values, part(theta.view(), block));
  }

 private:
  nn::ReferenceBackend backend_;
  LocalReducer reducer_;

 public:
  FactorizationModel model;
  Buffer theta;
};

/// Two users, three items, two factors.
void write_by_hand(FactorTrial& trial) {
  trial.write("users.factors", {1, 2, -1, 0.5F});
  trial.write("items.factors", {0.5F, 0.25F, 2, -1, 0, 4});
  trial.write("users.bias", {0.5F, -0.25F});
  trial.write("items.bias", {0.125F, 0, -1});
}

}  // namespace

TEST_CASE("a rating is the mean, two biases and a product", "[factorization]") {
  FactorTrial trial({.dimension = 2}, 2, 3);
  write_by_hand(trial);
  CHECK(trial.model.rating(0, 0, trial.model.tables(trial.theta.view())) == 3.5F + 0.5F + 0.125F + 1.0F);
  CHECK(trial.model.rating(0, 2, trial.model.tables(trial.theta.view())) == 3.5F + 0.5F - 1 + 8);
  CHECK(trial.model.rating(1, 1, trial.model.tables(trial.theta.view())) == 3.5F - 0.25F - 2.5F);
}

TEST_CASE("evaluations and predictions of ratings, by hand", "[factorization]") {
  FactorTrial trial({.dimension = 2}, 2, 3);
  write_by_hand(trial);
  const std::vector<SparseEntry> entries = {{0, 0, 5.125F}, {1, 1, 2.75F}, {0, 2, 12}};  // r̂: 5.125, 0.75, 11
  const data::ExampleSet set = data::SparseEntries(entries);
  const std::vector<data::ExampleRange> ranges = {{2, 3}, {0, 2}};
  const data::Batch batch{.size = 3, .set = &set, .ranges = ranges};
  kernels::LossSums sums;
  trial.model.evaluate(batch, trial.state(), sums);
  CHECK(sums.examples == 3);
  CHECK(sums.loss == 2.5);  // (0 + 4 + 1) / 2
  const auto metrics = trial.model.metrics(sums);
  CHECK(metric(metrics, "loss") == Approx(2.5 / 3));
  CHECK(metric(metrics, "rmse") == Approx(std::sqrt(5.0 / 3)));
  CHECK(metric(metrics, "mae") == 1);
  // Ratings 5.125, 2.75 and 12 have the mean 6.625: 1.5², 3.875² and 5.375², of which errors leave 0, 2² and 1².
  CHECK(metric(metrics, "r2") == Approx(1 - 5 / (2.25 + 15.015625 + 28.890625)));
  std::vector<float> predictions(3);
  trial.model.predict(batch, trial.state(), predictions);
  CHECK(predictions == std::vector<float>{11, 5.125F, 0.75F});
  CHECK(trial.model.output_size() == 1);
  CHECK(std::isnan(metric(trial.model.metrics({}), "rmse")));
}

TEST_CASE("an update of one rating, by its formula", "[factorization]") {
  for (const std::string rule : {"sgd", "adagrad"}) {
    for (const bool biases : {true, false}) {
      CAPTURE(rule, biases);
      const FactorizationSettings settings{.dimension = 3, .user_l2 = 0.05, .item_l2 = 0.1, .biases = biases};
      FactorTrial trial(settings, 4, 5, rule);
      const bool adagrad = rule == "adagrad";
      if (adagrad) trial.write("users.squares", {1, 2, 4, 1});
      const std::vector<SparseEntry> entries = {{2, 1, 5}};
      const data::ExampleSet set = data::SparseEntries(entries);
      const std::vector<float> p = trial.read("users.factors"), q = trial.read("items.factors");
      constexpr double kRate = 0.1;
      kernels::LossSums sums;
      const auto scratch = trial.model.make_scratch();
      trial.model.update_in_place({.size = 1, .set = &set}, {0, 1}, {.rate = kRate, .parameters = trial.theta.view()},
                                  *scratch, sums);

      double error = 5 - 3.5;  // biases begin at 0
      for (std::size_t k = 0; k < 3; ++k) error -= static_cast<double>(p[6 + k]) * static_cast<double>(q[3 + k]);
      CHECK(sums.loss == Approx(error * error / 2).epsilon(1e-6));
      const double user_rate = adagrad ? kRate / 2 : kRate;
      double squares = 0;
      const std::vector<float> new_p = trial.read("users.factors"), new_q = trial.read("items.factors");
      for (std::size_t k = 0; k < 3; ++k) {
        const auto a = static_cast<double>(p[6 + k]), b = static_cast<double>(q[3 + k]);
        CHECK(new_p[6 + k] == Approx(a + user_rate * (error * b - 0.05 * a)).margin(1e-6));
        CHECK(new_q[3 + k] == Approx(b + kRate * (error * a - 0.1 * b)).margin(1e-6));
        squares += std::pow(error * b - 0.05 * a, 2) / 3;
      }
      for (std::size_t i = 0; i < p.size(); ++i) {
        if (i / 3 != 2) CHECK(new_p[i] == p[i]);
      }
      if (adagrad) {
        CHECK(trial.read("users.squares")[2] == Approx(4 + squares).margin(1e-6));
        CHECK(trial.read("users.squares")[0] == 1);
      }
      if (!biases) {
        CHECK_THROWS(trial.model.layout().block("users.bias"));
        continue;
      }
      CHECK(trial.read("users.bias")[2] == Approx(user_rate * error).margin(1e-6));
      CHECK(trial.read("items.bias")[1] == Approx(kRate * error).margin(1e-6));
    }
  }
}

TEST_CASE("a penalty of a whole row is shared by its ratings", "[factorization]") {
  const FactorizationSettings shared{.dimension = 3, .user_l2 = 0.5, .item_l2 = 0.25},
      own{.dimension = 3, .user_l2 = 4 * 0.5, .item_l2 = 2 * 0.25, .l2_per = PenaltyPer::user_and_item};
  // User 2 has 4 ratings and item 1 has 2; of nothing is nothing known.
  FactorTrial a(shared, 4, 5, "adagrad"), b(own, 4, 5, "adagrad", 7, {1, 0, 4, 1, 1, 2, 3, 0, 0});
  CHECK(b.read("users.l2") == std::vector<float>{2, 2, 0.5F, 2});
  CHECK(b.read("items.l2")[1] == 0.25F);
  const std::vector<SparseEntry> entries = {{2, 1, 5}};
  const data::ExampleSet set = data::SparseEntries(entries);
  for (FactorTrial* trial : {&a, &b}) {
    kernels::LossSums sums;
    const auto scratch = trial->model.make_scratch();
    const InPlaceStep step{.rate = 0.1, .parameters = trial->theta.view()};
    for (int times = 0; times < 2; ++times) {
      trial->model.update_in_place({.size = 1, .set = &set}, {0, 1}, step, *scratch, sums);
    }
  }
  for (const char* name : {"users.factors", "items.factors", "users.bias", "items.bias", "users.squares"}) {
    CHECK(a.read(name) == b.read(name));
  }
  CHECK(a.model.layout().parameters() == b.model.layout().parameters());
}

TEST_CASE("a row's initial factors depend on seed and row alone", "[factorization]") {
  const FactorTrial few({.dimension = 5}, 3, 4), many({.dimension = 5}, 30, 11),
      adagrad({.dimension = 5, .biases = false}, 3, 4, "adagrad");
  const FactorTrial other({.dimension = 5}, 3, 4, "sgd", 8);
  for (const std::string name : {"users.factors", "items.factors"}) {
    const auto a = few.read(name), b = many.read(name);
    CHECK(std::equal(a.begin(), a.end(), b.begin()));
    CHECK(adagrad.read(name) == a);
    CHECK(other.read(name) != a);
    // ± range / √K, and about uniform: 5 · 11 numbers at least, of which the mean is within 5 deviations.
    const double bound = 0.1 / std::sqrt(5.0);
    double sum = 0;
    for (const float value : b) {
      CHECK(std::abs(value) <= bound * (1 + 1e-6));
      sum += static_cast<double>(value);
    }
    CHECK(std::abs(sum / static_cast<double>(b.size())) < 5 * bound / std::sqrt(3.0 * static_cast<double>(b.size())));
  }
  CHECK(few.read("users.factors") != few.read("items.factors"));
  CHECK(few.read("users.bias") == std::vector<float>(3));
  CHECK(adagrad.read("items.squares") == std::vector<float>(4, 1));
}

TEST_CASE("what a factorization is made of", "[factorization]") {
  const FactorTrial plain({.dimension = 20}, 6, 4), adagrad({.dimension = 20}, 6, 4, "adagrad");
  CHECK(plain.model.layout().parameters() == 10 * 21);
  CHECK(adagrad.model.layout().parameters() == 10 * 21);
  CHECK(plain.model.layout().size() == 10 * 48);  // 32 for the factors, 16 for bias and h
  const auto spaces = plain.model.row_spaces();
  REQUIRE(spaces.size() == 2);
  CHECK(spaces[0].rows == 6);
  CHECK(spaces[1].rows == 4);
  CHECK(spaces[1].offset == 6 * 48);
  const auto tables = plain.model.vectors({});
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].name == "users");
  CHECK(tables[1].width == 20);
  CHECK(adagrad.model.flops_per_example() > plain.model.flops_per_example());
}

}  // namespace unisono::models
