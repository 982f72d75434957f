#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "conjugate_gradient.hpp"
#include "functions.hpp"
#include "unisono/base/errors.hpp"

// What all methods for the whole training set promise.

namespace unisono::optim {
namespace {

struct Method {
  const char *kind, *keys;
};

const Method kMethods[] = {{"lbfgs", ""},
                           {"lbfgs", "line_search = 'armijo'\nhistory = 3"},
                           {"conjugate_gradient", "beta = 'hager_zhang'"},
                           {"conjugate_gradient", "beta = 'polak_ribiere'"},
                           {"newton_cg", ""},
                           {"gradient_descent", ""},
                           {"gradient_descent", "line_search = 'strong_wolfe'"}};

std::unique_ptr<BatchMethod> make(const Method& method, Index size, const std::string& keys = "") {
  return make_batch_method(whole_batch(method.kind, std::string(method.keys) + "\n" + keys), size);
}

bool is_gradient_descent(const Method& method) { return method.kind == std::string("gradient_descent"); }

/// Everything that a method is between two iterations.
struct Saved {
  std::vector<float> x;
  std::vector<std::vector<float>> vectors;
  std::vector<double> scalars;
  bool operator==(const Saved&) const = default;
};

Saved save(BatchMethod& method, const std::vector<float>& x) {
  Saved saved{x, {}, method.scalars()};
  for (const OptimizerState& one : method.state()) {
    saved.vectors.emplace_back(one.values.view().begin(), one.values.view().end());
  }
  return saved;
}

void restore(BatchMethod& method, const Saved& saved) {
  for (std::size_t i = 0; i < saved.vectors.size(); ++i) {
    std::ranges::copy(saved.vectors[i], method.state()[i].values.view().begin());
  }
  method.restore(saved.scalars);
}

}  // namespace

TEST_CASE("each method finds the known minima", "[batch_methods]") {
  for (const Problem& problem : more_garbow_hillstrom()) {
    for (const Method& method : kMethods) {
      if (is_gradient_descent(method) && problem.name != "1 Rosenbrock" && problem.name != "5 Beale") continue;
      std::vector<float> x = problem.start;
      TestFunction f(std::ssize(x), problem.f);
      const auto minimiser = make(method, f.size());
      const BatchIteration last = minimise(*minimiser, f, x, is_gradient_descent(method) ? 20000 : 2000);
      INFO(problem.name << ": " << method.kind << " " << method.keys << ": " << last.value << " after " << f.evaluations
                        << " evaluations, end " << static_cast<int>(last.end));
      // Floats near x have values of about (6e-8)² times the curvature, at most 1e5, above the minimum.
      // Short steps against the gradient are lost in the rounding of x before that.
      CHECK(last.value - problem.minimum <= 1e-6 * problem.minimum + (is_gradient_descent(method) ? 1e-7 : 1e-8));
    }
  }
}

TEST_CASE("a method goes on bit for bit where it was stopped", "[batch_methods]") {
  for (const Method& method : kMethods) {
    for (const bool convex : {false, true}) {
      INFO(method.kind << " " << method.keys << (convex ? " of a quadratic" : ""));
      const Smooth smooth = convex ? quadratic({1, 3, 10, 30, 100, 300}) : rosenbrock();
      std::vector<float> x = repeated({-1.2F, 1}, 3), y = x;
      TestFunction f(6, smooth);
      const auto whole = make(method, 6);
      auto stopped = make(method, 6);
      for (int i = 0; i < 60; ++i) {
        auto next = make(method, 6);
        const Saved before = save(*stopped, y);
        restore(*next, before);
        REQUIRE(save(*next, y) == before);
        stopped = std::move(next);
        const BatchIteration one = whole->iterate(f, x), other = stopped->iterate(f, y);
        REQUIRE(save(*whole, x) == save(*stopped, y));
        REQUIRE((one.value == other.value && one.end == other.end && one.evaluations == other.evaluations));
        if (one.end != BatchEnd::none) break;
      }
    }
  }
}

TEST_CASE("what an iteration tells is true", "[batch_methods]") {
  for (const Method& method : kMethods) {
    INFO(method.kind << " " << method.keys);
    std::vector<float> x = {-1.2F, 1}, g(2);
    TestFunction f(2, rosenbrock()), own(2, rosenbrock());
    const auto minimiser = make(method, 2);
    std::int64_t evaluations = 0, products = 0;
    for (int i = 0; i < 20; ++i) {
      const BatchIteration now = minimiser->iterate(f, x);
      evaluations += now.evaluations;
      products += now.products;
      CHECK(now.value == own.value_and_gradient(x, g));
      CHECK(now.gradient_magnitude == own.largest_magnitude(g));
      CHECK(now.step_length > 0);
    }
    CHECK(evaluations == f.evaluations);
    CHECK(products == f.products);
  }
}

TEST_CASE("Newton forms the Hessian where the last iteration had more steps than it costs, with the same iterates",
          "[batch_methods]") {
  const Method method{"newton_cg", ""};
  const Numbers eigenvalues = {1, 3, 10, 40, 90, 200, 700};
  std::vector<float> x(7), y(7);
  TestFunction f(7, quadratic(eigenvalues)), matrices(7, quadratic(eigenvalues));
  matrices.cost = 2;
  const auto plain = make(method, 7), forming = make(method, 7);
  std::int64_t hessians = 0, products = 0, inner_steps = 0;
  for (int i = 0; i < 8; ++i) {
    const BatchIteration one = plain->iterate(f, x), other = forming->iterate(matrices, y);
    CHECK(x == y);
    CHECK(one.value == other.value);
    CHECK(other.hessians == (i > 0 && inner_steps > 2 ? 1 : 0));
    CHECK(other.products == (other.hessians > 0 ? 0 : one.products));
    inner_steps = one.products;
    hessians += other.hessians;
    products += other.products;
    if (one.end != BatchEnd::none) break;
  }
  CHECK(hessians > 0);
  CHECK(products > 0);
  CHECK(hessians == matrices.hessians);
  CHECK(products == matrices.products);
}

TEST_CASE("a method ends where its settings say", "[batch_methods]") {
  for (const Method& method : kMethods) {
    INFO(method.kind << " " << method.keys);
    const auto run = [&](const std::string& keys) {
      std::vector<float> x = {4, 3, -2};
      TestFunction f(3, quadratic({1, 3, 10}));
      OptimizerSettings settings{.kind = method.kind};
      const std::string text = "kind = '" + std::string(method.kind) + "'\n" + method.keys + "\n" + keys;
      parse_config({.path = "", .text = text, .overrides = {}}, [&](ConfigVisitor& v) { settings.describe(v); });
      return minimise(*make_batch_method(settings, 3), f, x, 500);
    };
    const BatchIteration by_gradient = run("gradient_tolerance = 1e-3");
    CHECK(by_gradient.end == BatchEnd::gradient);
    CHECK(by_gradient.gradient_magnitude <= 1e-3);
    CHECK(run("").gradient_magnitude <= 1e-5);
    const BatchIteration by_function = run("gradient_tolerance = 0\nfunction_tolerance = 0.5");
    CHECK((by_function.end == BatchEnd::function || by_function.gradient_magnitude == 0));
    CHECK(run("gradient_tolerance = 0\npasses = 3").end == BatchEnd::passes);
    CHECK(run("gradient_tolerance = 1e9").end == BatchEnd::gradient);
  }
}

TEST_CASE("a start from which nothing can be done ends with the reason", "[batch_methods]") {
  const double nan = std::nan("");
  const auto value = [](double v, float g) {
    return [=](const Numbers&, Numbers& gradient) {
      std::ranges::fill(gradient, g);
      return v;
    };
  };
  for (const Method& method : kMethods) {
    INFO(method.kind << " " << method.keys);
    const auto end_of = [&](const Smooth& smooth, const std::string& keys = "") {
      std::vector<float> x = {1, 1};
      const std::vector<float> start = x;
      TestFunction f(2, smooth);
      const auto minimiser = make(method, 2, keys);
      const BatchIteration last = minimiser->iterate(f, x);
      CHECK(x == start);
      CHECK(f.evaluations == last.evaluations);
      return last.end;
    };
    CHECK(end_of(value(3, 0)) == BatchEnd::constant);
    CHECK(end_of(value(nan, 1)) == BatchEnd::not_finite);
    CHECK(end_of(value(std::numeric_limits<double>::infinity(), 1)) == BatchEnd::not_finite);
    CHECK(end_of(value(1, static_cast<float>(nan))) == BatchEnd::not_finite);
    const Smooth least_at_start = [](const Numbers& x, Numbers& g) {
      std::ranges::fill(g, 1);
      return x[0] == 1 && x[1] == 1 ? 1.0 : 2.0;
    };
    CHECK(end_of(least_at_start) == BatchEnd::no_decrease);
  }
}

TEST_CASE("where no step changes x, a method ends without trying shorter ones", "[batch_methods]") {
  // Near its minimum at 1 the slope is so small, and the curvature so large, that every step is less than x's roundoff.
  const Smooth steep = [](const Numbers& x, Numbers& g) {
    g[0] = 1e6 * (x[0] - 1) + 1e-4;
    return 5e5 * (x[0] - 1) * (x[0] - 1) + 1e-4 * (x[0] - 1);
  };
  for (const Method& method : kMethods) {
    INFO(method.kind << " " << method.keys);
    std::vector<float> x = {1};
    TestFunction f(1, steep);
    const auto minimiser = make(method, 1);
    BatchIteration last = minimiser->iterate(f, x);
    for (int i = 0; i < 50 && last.end == BatchEnd::none; ++i) last = minimiser->iterate(f, x);
    CHECK((last.end == BatchEnd::no_decrease || last.end == BatchEnd::stalled));
    CHECK(x[0] == Approx(1).margin(1e-6));
    if (method.kind == std::string("newton_cg")) CHECK(f.evaluations + f.products <= 3);
  }
}

TEST_CASE("values that are not finite far away shorten the steps", "[batch_methods]") {
  // −Σ log(1 − x_i²) + x_i: not finite beyond the box; each method meets its wall.
  const Smooth barrier = [](const Numbers& x, Numbers& g) {
    double value = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double room = 1 - x[i] * x[i];
      value += (room > 0 ? -1e-3 * std::log(room) : std::nan("")) + x[i];
      g[i] = 2e-3 * x[i] / room + 1;
    }
    return value;
  };
  for (const Method& method : kMethods) {
    INFO(method.kind << " " << method.keys);
    std::vector<float> x = {0.9F, 0.5F, 0, -0.5F};
    TestFunction f(4, barrier);
    const auto minimiser = make(method, 4, "");
    const BatchIteration last = minimise(*minimiser, f, x, 300);
    CHECK(last.end != BatchEnd::not_finite);
    const bool slow = is_gradient_descent(method);
    if (!slow) CHECK(last.gradient_magnitude < 0.02);  // x = −0.999 has a curvature of 1000
    for (const float one : x) CHECK(one == Approx(-0.9990005).epsilon(slow ? 0.02 : 1e-5));
  }
}

TEST_CASE("conjugate gradients with exact searches need n + 1 steps", "[batch_methods][conjugate_gradient]") {
  /// The zero of the slope, from two trials: exact for quadratics.
  class Exact final : public LineSearch {
   public:
    void start(double, double slope, double first) override {
      slope_ = slope;
      step_ = first;
      ready_ = false;
    }
    LineAnswer see(double, double slope) override {
      if (std::exchange(ready_, true)) return LineAnswer::accepted;
      step_ *= slope_ / (slope_ - slope);
      return LineAnswer::evaluate;
    }

   private:
    double slope_ = 0;
    bool ready_ = false;
  };
  for (const ConjugateBeta beta : {ConjugateBeta::hager_zhang, ConjugateBeta::polak_ribiere}) {
    for (const Numbers& eigenvalues : {Numbers{2}, Numbers{1, 4}, Numbers{1, 2, 5}, Numbers{1, 2, 3, 4, 8}}) {
      const Index n = std::ssize(eigenvalues);
      std::vector<float> x(eigenvalues.size(), 3);
      TestFunction f(n, quadratic(eigenvalues));
      const auto method = make_conjugate_gradient({.beta = beta, .stopping = {.gradient_tolerance = 1e-5}}, n,
                                                  std::make_unique<Exact>());
      int steps = 0;
      while (method->iterate(f, x).end == BatchEnd::none && steps <= n + 1) ++steps;
      CHECK(steps + 1 <= n + 1);
      for (const float one : x) CHECK(one == Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("whole-batch methods say what they need", "[batch_methods][config]") {
  for (const OptimizerKind& kind : optimizer_kinds()) {
    CHECK(kind.traits.whole_batch == (kind.make_batch != nullptr || kind.traits.alternating));
    CHECK(kind.traits.whole_batch == (kind.make == nullptr));
    if (kind.make_batch == nullptr) continue;
    const OptimizerSettings settings{.kind = std::string(kind.name)};
    const auto method = make_batch_method(settings, 8);
    std::vector<std::string> names;
    for (const OptimizerState& one : method->state()) names.push_back(one.name);
    CHECK(names == kind.state(settings));
    CHECK(kind.traits.temporaries > 0);
    CHECK(kind.traits.takes_l1 == (kind.name == "lbfgs"));
    CHECK(kind.traits.needs_hessian == (kind.name == "newton_cg"));
    if (kind.traits.takes_l1) continue;
    TestFunction f(8, quadratic(Numbers(8, 1)));
    f.ranges = {{0, 8, 0.5}};
    std::vector<float> x(8);
    CHECK_THROWS_AS(method->iterate(f, x), ConfigError);
  }
  CHECK_THROWS_AS(make_batch_method({.kind = "sgd"}, 8), ConfigError);
}

TEST_CASE("what a whole-batch method cannot mean is refused", "[batch_methods][config]") {
  for (const auto& [kind, keys] :
       std::vector<std::pair<std::string, std::string>>{{"lbfgs", "history = 0"},
                                                        {"lbfgs", "history = 101"},
                                                        {"lbfgs", "line_search = 'wolfe'"},
                                                        {"lbfgs", "gradient_tolerance = -1"},
                                                        {"lbfgs", "function_tolerance = 1.0"},
                                                        {"lbfgs", "function_tolerance = -0.5"},
                                                        {"lbfgs", "passes = -1"},
                                                        {"lbfgs", "beta = 'hager_zhang'"},
                                                        {"newton_cg", "history = 10"},
                                                        {"newton_cg", "line_search = 'armijo'"},
                                                        {"conjugate_gradient", "beta = 'fletcher_reeves'"},
                                                        {"conjugate_gradient", "line_search = 'armijo'"},
                                                        {"conjugate_gradient", "history = 5"},
                                                        {"gradient_descent", "history = 5"},
                                                        {"gradient_descent", "momentum = 0.9"}}) {
    INFO(kind << " " << keys);
    CHECK_THROWS_AS(whole_batch(kind, keys), ConfigError);
  }
}

}  // namespace unisono::optim
