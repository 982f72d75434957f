#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>

#include "functions.hpp"
#include "lbfgs_history.hpp"

namespace unisono::optim {
namespace {

struct Pair {
  Numbers s, y;
};

double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// −H g as Nocedal 1980 computes it.
Numbers two_loop(const std::deque<Pair>& pairs, const Numbers& g) {
  Numbers q = g, alpha(pairs.size());
  for (std::size_t i = pairs.size(); i-- > 0;) {
    alpha[i] = dot(pairs[i].s, q) / dot(pairs[i].s, pairs[i].y);
    for (std::size_t j = 0; j < q.size(); ++j) q[j] -= alpha[i] * pairs[i].y[j];
  }
  const Pair& newest = pairs.back();
  for (double& one : q) one *= dot(newest.s, newest.y) / dot(newest.y, newest.y);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const double beta = dot(pairs[i].y, q) / dot(pairs[i].s, pairs[i].y);
    for (std::size_t j = 0; j < q.size(); ++j) q[j] += (alpha[i] - beta) * pairs[i].s[j];
  }
  for (double& one : q) one = -one;
  return q;
}

/// Numbers between −1 and 1 that look random.
float drawn(int i, int j) { return static_cast<float>(std::sin(12.9898 * (i + 1) + 78.233 * (j + 1) * (i + 2))); }

Buffer buffer_of(const std::vector<float>& values) {
  Buffer buffer(std::ssize(values));
  std::ranges::copy(values, buffer.view().begin());
  return buffer;
}

/// The data of the l1 problem: labels, and rows of 12 features.
double feature(int i, int j) { return ((i * i * 7 + i * j * 13 + j * j * j * 3 + i * i * j) % 23 - 11) / 11.0; }
double label(int i) {
  const double margin = 2 * feature(i, 0) - 1.5 * feature(i, 1) + feature(i, 2) + (i * 13 % 7 - 3) / 3.0;
  return margin > 0 ? 1 : -1;
}

/// The mean logistic loss over 60 examples.
double logistic(const Numbers& x, Numbers& g) {
  constexpr int kExamples = 60;
  double value = 0;
  std::ranges::fill(g, 0);
  for (int i = 0; i < kExamples; ++i) {
    double margin = 0;
    for (std::size_t j = 0; j < 12; ++j) margin += label(i) * feature(i, static_cast<int>(j)) * x[j];
    value += std::log1p(std::exp(-margin)) / kExamples;
    const double slope = -label(i) / (1 + std::exp(margin)) / kExamples;
    for (std::size_t j = 0; j < 12; ++j) g[j] += slope * feature(i, static_cast<int>(j));
  }
  return value;
}

}  // namespace

TEST_CASE("the vector-free recursion gives the direction of the two-loop recursion", "[lbfgs]") {
  constexpr int kPairs = 4, kSize = 5000;  // several pieces
  TestFunction f(kSize, [](const Numbers&, Numbers&) { return 0.0; });
  LbfgsHistory history(kPairs);
  std::vector<OptimizerState> vectors;
  for (std::string& name : LbfgsHistory::names(kPairs)) vectors.push_back({std::move(name), Buffer(kSize)});
  std::deque<Pair> pairs;
  for (int k = 0; k < 11; ++k) {
    std::vector<float> s, y, g;
    for (int i = 0; i < kSize; ++i) {
      s.push_back(drawn(k, i));
      y.push_back(s.back() * static_cast<float>(1 + i % 7) + 0.1F * drawn(k + 20, i));
      g.push_back(drawn(k + 40, i));
    }
    if (k == 5) std::ranges::transform(y, y.begin(), [](float one) { return -one; });  // negative curvature: left out
    Buffer new_s = buffer_of(s), new_y = buffer_of(y), d(kSize);
    const LbfgsHistory::GradientPiece piece = [&](Index first, Index, float*) { return g.data() + first; };
    history.update(f, vectors, new_s, new_y, piece, 1);
    if (k != 5) pairs.push_back({Numbers(s.begin(), s.end()), Numbers(y.begin(), y.end())});
    if (pairs.size() > kPairs) pairs.pop_front();
    CHECK(history.pairs() == static_cast<int>(pairs.size()));
    const LbfgsDirection direction = history.direction();
    history.combine(direction, vectors, piece, d.view());
    const Numbers wanted = two_loop(pairs, Numbers(g.begin(), g.end()));
    const double norm = std::sqrt(dot(wanted, wanted));
    double error = 0;
    for (std::size_t i = 0; i < kSize; ++i) error = std::max(error, std::abs(d.view()[i] - wanted[i]));
    CHECK(error <= 1e-7 * norm);  // of floats
    CHECK(direction.slope == Approx(dot(wanted, Numbers(g.begin(), g.end()))).epsilon(1e-10));
    CHECK(direction.square == Approx(norm * norm).epsilon(1e-10));
  }
}

TEST_CASE("the zeros of OWL-QN are those of liblinear", "[lbfgs][l1]") {
  // sklearn.linear_model.LogisticRegression(penalty="l1", solver="liblinear", C=1/(60*l1), fit_intercept=False,
  // tol=1e-12, max_iter=1000000), scikit-learn 1.2, on the same data.
  struct Case {
    double l1, minimum;
    std::vector<double> weights;  ///< then zeros
  };
  for (const Case& one :
       {Case{0.02, 0.3067459909375022, {3.07784159, -2.13540718, 1.07454762, -0.41972555, -0.61205253}},
        Case{0.05, 0.4692781711425619, {1.98785799, -1.19836694, 0.59921611, -0.10404744, -0.12951013}},
        Case{0.1, 0.6075124079008472, {1.21644659, -0.48699695, 0.15710264}}}) {
    TestFunction f(12, logistic);
    f.ranges = {{0, 5, one.l1}, {5, 12, one.l1}};
    std::vector<float> x(12);
    const auto method = make_batch_method(whole_batch("lbfgs"), 12);
    const BatchIteration last = minimise(*method, f, x, 300);
    INFO("l1 = " << one.l1 << ", " << f.evaluations << " evaluations, end " << static_cast<int>(last.end));
    CHECK(last.value == Approx(one.minimum).epsilon(1e-7));
    for (std::size_t j = 0; j < 12; ++j) {
      if (j < one.weights.size()) {
        CHECK(x[j] == Approx(one.weights[j]).epsilon(1e-3));
      } else {
        CHECK(x[j] == 0);
      }
    }
  }
}

TEST_CASE("elements without a penalty are not drawn to zero", "[lbfgs][l1]") {
  // ½ Σ (x_i − a_i)² + Σ w_i |x_i|: x_i = a_i shrunk by w_i.
  const Numbers a = {3, -0.25, 0.5, -2, 0.125, 1};
  const Smooth f_smooth = [&](const Numbers& x, Numbers& g) {
    double value = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      g[i] = (x[i] - a[i]) * static_cast<double>(i + 1);
      value += (x[i] - a[i]) * g[i] / 2;
    }
    return value;
  };
  TestFunction f(6, f_smooth);
  f.ranges = {{1, 3, 1}, {3, 4, 2}};
  std::vector<float> x = {-1, -1, -1, 1, -1, -1};
  const auto method = make_batch_method(whole_batch("lbfgs"), 6);
  const BatchIteration last = minimise(*method, f, x, 200);
  // w_i / (i + 1): 0.5, 0.333, 0.5
  const double wanted[] = {3, 0, 0.5 - 1.0 / 3, -1.5, 0.125, 1};
  for (std::size_t i = 0; i < 6; ++i) CHECK(x[i] == Approx(wanted[i]).margin(1e-5));
  CHECK(last.gradient_magnitude < 1e-5);
}

TEST_CASE("OWL-QN goes on bit for bit where it was stopped", "[lbfgs][l1]") {
  TestFunction f(12, logistic);
  f.ranges = {{0, 12, 0.02}};
  std::vector<float> x(12), y(12);
  const auto whole = make_batch_method(whole_batch("lbfgs", "history = 3"), 12);
  auto stopped = make_batch_method(whole_batch("lbfgs", "history = 3"), 12);
  for (int i = 0; i < 40; ++i) {
    auto next = make_batch_method(whole_batch("lbfgs", "history = 3"), 12);
    for (std::size_t v = 0; v < next->state().size(); ++v) {
      std::ranges::copy(stopped->state()[v].values.view(), next->state()[v].values.view().begin());
    }
    next->restore(stopped->scalars());
    stopped = std::move(next);
    const BatchIteration one = whole->iterate(f, x), other = stopped->iterate(f, y);
    REQUIRE((x == y && one.value == other.value && whole->scalars() == stopped->scalars()));
    if (one.end != BatchEnd::none) break;
  }
}

TEST_CASE("OWL-QN ends at its start with the reason", "[lbfgs][l1]") {
  std::vector<float> x(12);
  TestFunction strong(12, logistic);
  strong.ranges = {{0, 12, 10}};  // 0 is the minimum
  CHECK(make_batch_method(whole_batch("lbfgs"), 12)->iterate(strong, x).end == BatchEnd::gradient);
  TestFunction constant(12, [](const Numbers&, Numbers& g) {
    std::ranges::fill(g, 0);
    return 1.0;
  });
  constant.ranges = {{0, 12, 1}};
  CHECK(make_batch_method(whole_batch("lbfgs"), 12)->iterate(constant, x).end == BatchEnd::constant);
  // Elsewhere the penalty alone has a gradient, and 0 is its minimum.
  std::ranges::fill(x, 0.75F);
  const auto method = make_batch_method(whole_batch("lbfgs"), 12);
  BatchIteration last = method->iterate(constant, x);
  for (int i = 0; i < 50 && last.end == BatchEnd::none; ++i) last = method->iterate(constant, x);
  CHECK(last.end == BatchEnd::gradient);
  CHECK(x == std::vector<float>(12));
}

}  // namespace unisono::optim
