#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "golden/golden.hpp"
#include "optimizers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {
namespace {

const std::map<std::string, OptimizerSettings> golden_cases = {
    {"sgd", {.kind = "sgd", .learning_rate = 0.0625}},
    {"sgd, decay, clipping", {.kind = "sgd", .learning_rate = 0.0625, .weight_decay = 0.25, .clip_norm = 1.5}},
    {"momentum", with({.kind = "sgd", .learning_rate = 0.0625}, "momentum = 0.9")},
    {"momentum, decay of all",
     with({.kind = "sgd", .learning_rate = 0.0625, .weight_decay = 0.125, .decay = DecayRule::all}, "momentum = 0.9")},
    {"nesterov", with({.kind = "sgd", .learning_rate = 0.0625, .weight_decay = 0.125, .clip_norm = 1.5},
                      "momentum = 0.9, nesterov = true")},
    {"adagrad", {.kind = "adagrad", .learning_rate = 0.0625, .weight_decay = 0.125}},
    {"rmsprop", {.kind = "rmsprop", .learning_rate = 0.015625, .weight_decay = 0.125}},
    {"adam", {.kind = "adam", .learning_rate = 0.015625}},
    {"adam, decay, clipping", {.kind = "adam", .learning_rate = 0.015625, .weight_decay = 0.125, .clip_norm = 1.5}},
    {"adamw", {.kind = "adamw", .learning_rate = 0.015625, .weight_decay = 0.5}},
    {"lars", with({.kind = "lars", .learning_rate = 0.25, .weight_decay = 0.125}, "trust = 0.125")},
    {"lars, clipping",
     with({.kind = "lars", .learning_rate = 0.25, .weight_decay = 0.125, .decay = DecayRule::all, .clip_norm = 1.5},
          "trust = 0.125")},
    {"lamb", {.kind = "lamb", .learning_rate = 0.015625, .weight_decay = 0.5}},
    {"lamb, decay of all",
     {.kind = "lamb", .learning_rate = 0.015625, .weight_decay = 0.5, .decay = DecayRule::all, .clip_norm = 1.5}}};

/// These, and every rule of the table with its defaults.
std::map<std::string, OptimizerSettings> all_cases() {
  std::map<std::string, OptimizerSettings> cases = golden_cases;
  for (const OptimizerKind& kind : optimizer_kinds()) {
    if (kind.traits.whole_batch) continue;
    const std::string name(kind.name);
    cases[name + ", defaults"] = {.kind = name, .learning_rate = 0.015625, .weight_decay = 0.125, .clip_norm = 1.5};
  }
  return cases;
}

/// The blocks of the golden values: each starts at a multiple of 16, so there is padding behind each.
ParameterLayout golden_layout() {
  ParameterLayout layout;
  const auto add = [&](const char* name, std::vector<Index> shape, Role role) {
    Block block;
    block.name = name;
    block.shape = std::move(shape);
    block.role = role;
    layout.add(block);
  };
  add("first.weight", {2, 3}, Role::weight);
  add("first.bias", {3}, Role::bias);
  add("norm.scale", {3}, Role::norm);
  add("last.weight", {2, 2}, Role::weight);
  return layout;
}

void scatter(const ParameterLayout& layout, const std::vector<double>& values, MutableView vector) {
  auto value = values.begin();
  for (const Block& block : layout.blocks()) {
    for (float& x : part(vector, block)) x = static_cast<float>(*value++);
  }
}

std::vector<double> gather(const ParameterLayout& layout, View vector) {
  std::vector<double> values;
  for (const Block& block : layout.blocks()) {
    for (const float x : part(vector, block)) values.push_back(x);
  }
  return values;
}

/// Whether what lies between the blocks is zero.
bool padding_is_zero(const ParameterLayout& layout, View vector) {
  std::vector<float> copy(vector.begin(), vector.end());
  for (const Block& block : layout.blocks()) std::ranges::fill(part(MutableView(copy), block), 0.0F);
  return std::ranges::all_of(copy, [](float x) { return x == 0; });
}

/// A model of the golden layout, trained on the golden gradients.
struct Trainee {
  explicit Trainee(const OptimizerSettings& settings_)
      : settings(settings_), optimizer(make_optimizer(settings_, layout, *backend)) {
    scatter(layout, golden::parameters, theta.view());
  }

  void step() {
    const auto t = static_cast<std::size_t>(optimizer->steps());
    scatter(layout, golden::gradients.at(t), gradient.view());
    const double rate = settings.learning_rate * (1 - static_cast<double>(t) / 16);
    optimizer->step(theta.view(), std::as_const(gradient).view(), rate);
  }

  /// The same step in parts of so many floats, from the last to the first.
  void step_in_parts(Index floats) {
    const auto t = static_cast<std::size_t>(optimizer->steps());
    scatter(layout, golden::gradients.at(t), gradient.view());
    optimizer->begin_step(settings.learning_rate * (1 - static_cast<double>(t) / 16));
    for (Index last = layout.size(); last > 0; last -= floats) {
      const FloatRange one{std::max(Index{0}, last - floats), last};
      optimizer->step_part(one.first, part(theta.view(), one), part(std::as_const(gradient).view(), one));
    }
  }

  OptimizerSettings settings;
  ParameterLayout layout = golden_layout();
  std::unique_ptr<kernels::Backend> backend = kernels::make_cpu_backend(1);
  Buffer theta{layout.size()}, gradient{layout.size()};
  std::unique_ptr<Optimizer> optimizer;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("every update rule makes the golden values of an independent implementation", "[optimizer]") {
  // With u = 2⁻²⁴: a step stores θ, |θ| < 2, with an error of 2u. Its direction is at most D = the largest change of θ
  // in a step. Running sums of ten terms, the hyperparameters' own rounding and the few operations on top stay below
  // 100 roundings of D: m̂, the worst, is a mean of terms of at most 1 with 3 roundings each, Σ 0.9ᵏ < 6.6 of them
  // count, and it is divided by √ŝ ≥ 1/2 (|g| lies in [1/2, 1]); with ŝ's and λθ's roundings that is below 3·6.6·2 + 30
  // + 20.
  REQUIRE(golden_cases.size() == golden::results.size());
  for (const auto& [name, settings] : golden_cases) {
    INFO(name);
    Trainee trainee(settings);
    std::size_t row = 0;
    double largest_change = 0;
    std::vector<double> before = golden::parameters;
    for (int t = 1; t <= golden::shown_steps.back(); ++t) {
      trainee.step();
      const std::vector<double> now = gather(trainee.layout, trainee.theta.view());
      largest_change = std::max(largest_change, largest_difference(now, before));
      before = now;
      if (t != golden::shown_steps[row]) continue;
      INFO("step " << t);
      const double u = std::ldexp(1.0, -24), tolerance = t * u * (2 + 100 * largest_change);
      CHECK(largest_difference(now, golden::results.at(name)[row]) <= tolerance);
      ++row;
    }
    CHECK(row == golden::shown_steps.size());
  }
}

TEST_CASE("what lies between blocks stays zero, in θ and in every rule's state", "[optimizer]") {
  for (const auto& [name, settings] : all_cases()) {
    INFO(name);
    Trainee trainee(settings);
    for (int t = 0; t < 3; ++t) trainee.step();
    CHECK(padding_is_zero(trainee.layout, trainee.theta.view()));
    for (const OptimizerState& state : trainee.optimizer->state()) {
      INFO(state.name);
      CHECK(padding_is_zero(trainee.layout, state.values.view()));
    }
  }
}

TEST_CASE("an optimizer keeps as many vectors as is predicted, each of θ's size", "[optimizer]") {
  for (const auto& [name, settings] : all_cases()) {
    INFO(name);
    Trainee trainee(settings);
    CHECK(static_cast<int>(trainee.optimizer->state().size()) == optimizer_state_vectors(settings));
    for (const OptimizerState& state : trainee.optimizer->state()) {
      CHECK(state.values.size() == trainee.layout.size());
      CHECK(!state.name.empty());
    }
  }
}

TEST_CASE("state and steps carried over to another optimizer continue the run bit for bit", "[optimizer]") {
  for (const auto& [name, settings] : all_cases()) {
    INFO(name);
    Trainee whole(settings), stopped(settings), resumed(settings);
    for (int t = 0; t < 6; ++t) whole.step();
    for (int t = 0; t < 3; ++t) stopped.step();
    for (std::size_t i = 0; i < stopped.optimizer->state().size(); ++i) {
      std::ranges::copy(stopped.optimizer->state()[i].values.view(), resumed.optimizer->state()[i].values.data());
    }
    resumed.optimizer->set_steps(stopped.optimizer->steps());
    std::ranges::copy(stopped.theta.view(), resumed.theta.data());
    for (int t = 3; t < 6; ++t) resumed.step();
    CHECK(std::ranges::equal(resumed.theta.view(), whole.theta.view()));
  }
}

TEST_CASE("a step in parts has the bits of a whole one, where it needs no norms", "[optimizer]") {
  for (const auto& [name, settings] : all_cases()) {
    const bool has_block_rates = settings.kind == "lars" || settings.kind == "lamb";
    for (const Index floats : {16, 32, 1000}) {
      INFO(name << ", " << floats << " floats");
      Trainee whole(settings), parts(settings);
      CHECK(parts.optimizer->steps_in_parts() == (settings.clip_norm == 0 && !has_block_rates));
      if (!parts.optimizer->steps_in_parts()) continue;
      for (int t = 0; t < 4; ++t) {
        whole.step();
        parts.step_in_parts(floats);
      }
      CHECK(parts.optimizer->steps() == 4);
      CHECK(std::ranges::equal(parts.theta.view(), whole.theta.view()));
      for (std::size_t i = 0; i < whole.optimizer->state().size(); ++i) {
        CHECK(std::ranges::equal(parts.optimizer->state()[i].values.view(), whole.optimizer->state()[i].values.view()));
      }
    }
  }
}

TEST_CASE("after a reset an optimizer is as new", "[optimizer]") {
  for (const auto& [name, settings] : all_cases()) {
    INFO(name);
    Trainee trainee(settings), fresh(settings);
    for (int t = 0; t < 3; ++t) trainee.step();
    trainee.optimizer->reset();
    CHECK(trainee.optimizer->steps() == 0);
    scatter(trainee.layout, golden::parameters, trainee.theta.view());
    trainee.step();
    fresh.step();
    CHECK(std::ranges::equal(trainee.theta.view(), fresh.theta.view()));
  }
}

TEST_CASE("clipping scales a gradient down to the norm, and leaves smaller ones alone", "[optimizer]") {
  const auto first_change = [](double clip_norm) {
    Trainee trainee({.kind = "sgd", .learning_rate = 1, .clip_norm = clip_norm});
    trainee.step();
    double squares = 0;
    const auto now = gather(trainee.layout, trainee.theta.view());
    for (std::size_t i = 0; i < now.size(); ++i) squares += std::pow(now[i] - golden::parameters[i], 2);
    return std::pair(std::sqrt(squares), trainee.optimizer->last_gradient_norm());
  };
  double squares = 0;
  for (const double g : golden::gradients.front()) squares += g * g;
  const double norm = std::sqrt(squares);
  REQUIRE(norm > 1.5);

  // Sixteen differences of values below 2, each rounded once: the norm is off by at most √16 · 2 · 2⁻²⁴.
  const double tolerance = 8 * std::ldexp(1.0, -24);
  CHECK(first_change(1.5).first == Approx(1.5).margin(tolerance));
  CHECK(first_change(1.5).second == Approx(norm).epsilon(1e-12));
  CHECK(first_change(norm + 1).first == Approx(norm).margin(tolerance));
  CHECK(first_change(0).second < 0);  // nobody asked for the norm
}

TEST_CASE("the last gradient's norm is that of the scaled gradient, before clipping", "[optimizer]") {
  Trainee trainee({.kind = "lamb", .learning_rate = 1, .clip_norm = 1.5});
  CHECK(trainee.optimizer->last_gradient_norm() < 0);  // of no step yet
  std::ranges::fill(trainee.gradient.view().first(16), 1.0F);
  trainee.optimizer->step(trainee.theta.view(), trainee.gradient.view(), 1, 0.25F);
  CHECK(trainee.optimizer->last_gradient_norm() == 1);
  trainee.optimizer->step(trainee.theta.view(), trainee.gradient.view(), 1);
  CHECK(trainee.optimizer->last_gradient_norm() == 4);
}

TEST_CASE("an optimizer that does not exist is refused by name", "[optimizer]") {
  const auto backend = kernels::make_cpu_backend(1);
  CHECK_THROWS_AS(make_optimizer({.kind = "sdg"}, golden_layout(), *backend), ConfigError);
  CHECK_THROWS_WITH(optimizer_state_vectors({.kind = "sdg"}), Catch::Contains("sdg") && Catch::Contains("lamb"));
}

}  // namespace unisono::optim
