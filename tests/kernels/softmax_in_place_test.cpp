#include "sparse_case.hpp"

namespace unisono::kernels::cpu {
namespace {

struct SoftmaxOptions {
  bool values, bias, penalties, averaged;
  std::string text() const {
    return std::string(values ? "values" : "ones") + (bias ? " bias" : "") + (penalties ? " penalties" : "") +
           (averaged ? " averaged" : "");
  }
};

template <typename Function>
void for_all_softmax_options(const Function& function) {
  for (int bits = 0; bits < 16; ++bits)
    function(SoftmaxOptions{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, bits > 7});
}

/// Weights and sums of K classes; the last row is the bias.
struct TestSoftmaxWeights {
  TestMatrix w, u;
  TestSoftmaxWeights(Index features, Index classes) : w(features + 1, classes, 6), u(features + 1, classes, 7, 0) {}
  SoftmaxWeights view(const SoftmaxOptions& options) {
    SoftmaxWeights result{.weights = w.view(), .classes = w.used()};
    if (options.bias) result.bias = w.row(w.rows() - 1);
    if (options.averaged) result.weight_sums = u.view();
    if (options.bias && options.averaged) result.bias_sum = u.row(u.rows() - 1);
    return result;
  }
};

struct ExpectedSoftmax {
  reference::Matrix weights, averages;
  InPlaceSums sums;
};

/// \param x (i) an example's features
template <typename Rows>
ExpectedSoftmax reference_softmax_run(const SparseCase& c, Index classes, const SoftmaxOptions& options,
                                      const Rows& x) {
  TestSoftmaxWeights begin(c.width, classes);
  ExpectedSoftmax result{begin.w.widened(), begin.u.widened(), {}};
  const LinearStep step = c.step(options.penalties);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto label = static_cast<std::size_t>(c.targets[i]);
    const auto z = reference::softmax(x(i), label, step, options.bias ? 1 : 0, 100 + static_cast<double>(i),
                                      result.weights, result.averages);
    result.sums.loss += reference::cross_entropy(z, label);
    if (std::max_element(z.begin(), z.end()) - z.begin() == static_cast<std::ptrdiff_t>(label)) ++result.sums.correct;
  }
  if (!options.averaged) std::fill(result.averages.values.begin(), result.averages.values.end(), 0.0);
  return result;
}

/// As for one margin (linear_in_place_test.cpp), where a probability's error is at most that of the margins.
void check_softmax(const SparseCase& c, const ExpectedSoftmax& expected, const InPlaceSums& sums,
                   TestSoftmaxWeights& weights) {
  const auto count = static_cast<double>(c.size());
  const double limit = count * (0.05 * 12 * 12 + 4) * kRoundoff;
  CHECK(excess(weights.w.values(), expected.weights.values, limit) <= 1);
  CHECK(excess(weights.u.values(), expected.averages.values, 200 * limit) <= 1);
  CHECK(weights.w.tidy());
  CHECK(weights.u.tidy());
  CHECK(sums.loss == Approx(expected.sums.loss).margin(2 * count * limit));
  CHECK(sums.correct == expected.sums.correct);
  CHECK(sums.examples == c.count());
}

}  // namespace

TEST_CASE("softmax regression's steps on sparse rows are the reference's, for all options", "[softmax_in_place]") {
  for (Index classes : {1, 2, 10, 16, 17, 33, 64, 100}) {
    const SparseCase c(37, 30, 12, static_cast<std::uint64_t>(classes));
    for_all_softmax_options([&](const SoftmaxOptions& options) {
      const ExpectedSoftmax expected =
          reference_softmax_run(c, classes, options, [&](std::size_t i) { return c.row(i, options.values); });
      with_all_kernels([&](const InPlaceKernels& kernels) {
        INFO(classes << " classes, " << options.text());
        TestSoftmaxWeights weights(c.width, classes);
        check_softmax(c, expected,
                      kernels.softmax(c.rows(options.values), c.targets, 0, c.count(), c.step(options.penalties),
                                      weights.view(options)),
                      weights);
      });
    });
  }
}

TEST_CASE("softmax regression's steps on dense rows are the reference's, for all options", "[softmax_in_place]") {
  for (Index classes : {3, 10, 20}) {
    const SparseCase c(37, 12, 12, static_cast<std::uint64_t>(classes));
    const Floats dense = c.dense();
    const auto row = [&](std::size_t i) {
      reference::Features result;
      for (std::size_t j = 0; j < 12; ++j) result.emplace_back(j, dense[i * 12 + j]);
      return result;
    };
    for_all_softmax_options([&](const SoftmaxOptions& options) {
      const ExpectedSoftmax expected = reference_softmax_run(c, classes, options, row);
      with_all_kernels([&](const InPlaceKernels& kernels) {
        INFO(classes << " classes, " << options.text());
        TestSoftmaxWeights weights(c.width, classes);
        check_softmax(
            c, expected,
            kernels.softmax(dense, c.targets, c.count(), c.width, c.step(options.penalties), weights.view(options)),
            weights);
      });
    });
  }
}

TEST_CASE("softmax regression: rows of many features, and two calls are one, to the bit", "[softmax_in_place]") {
  const SparseCase c(600, 2000, 12, 10);
  const SoftmaxOptions options{true, true, true, true};
  with_all_kernels([&](const InPlaceKernels& kernels) {
    TestSoftmaxWeights one(c.width, 10), two(c.width, 10);
    LinearStep step = c.step(options.penalties);
    const auto run = [&](TestSoftmaxWeights& weights, Index first, Index last) {
      step.updates_before = static_cast<double>(100 + first);
      return kernels.softmax(c.rows(true), c.targets, first, last, step, weights.view(options));
    };
    const InPlaceSums whole = run(one, 0, 600), first = run(two, 0, 301), second = run(two, 301, 600);
    CHECK(equal_sums(run(two, 17, 17), {}));
    CHECK(one.w.values() == two.w.values());
    CHECK(one.u.values() == two.u.values());
    CHECK(first.loss + second.loss == Approx(whole.loss).epsilon(1e-14));
    CHECK(first.correct + second.correct == whole.correct);
  });
}

TEST_CASE("the reference's step of softmax regression goes down the gradient of its loss", "[softmax_in_place]") {
  const reference::Features x{{0, 0.5}, {1, -2}};
  const LinearStep step{.rate = 1};
  const auto loss = [&](const std::vector<double>& theta) {
    reference::Matrix weights{theta, 3}, sums{std::vector<double>(9), 3};
    return reference::cross_entropy(reference::softmax(x, 2, step, 1, 0, weights, sums), 2);
  };
  const std::vector<double> theta{0.1, -0.2, 0.3, 0.05, 0.4, 0.2, -0.1, -0.3, 0.6};
  reference::Matrix weights{theta, 3}, sums{std::vector<double>(9), 3};
  reference::softmax(x, 2, step, 1, 0, weights, sums);
  std::vector<double> gradient;
  for (std::size_t i = 0; i < theta.size(); ++i) gradient.push_back(theta[i] - weights.values[i]);
  CHECK(gradient_error(loss, theta, gradient) < 1e-7);
}

TEST_CASE("margins of K classes are the reference's", "[softmax_in_place]") {
  const SparseCase c(40, 30, 12, 10);
  for (bool values : {false, true}) {
    TestSoftmaxWeights weights(c.width, 10);
    reference::Matrix w = weights.w.widened();
    std::vector<double> expected;
    for (std::size_t i = 3; i < c.size(); ++i) {
      std::vector<double> z(w.row(30).begin(), w.row(30).end());
      for (const auto& [j, value] : c.row(i, values)) reference::add_scaled(z, value, w.row(static_cast<Index>(j)));
      expected.insert(expected.end(), z.begin(), z.end());
    }
    with_all_kernels([&](const InPlaceKernels& kernels) {
      Floats margins(expected.size());
      kernels.margins(c.rows(values), 3, c.count(), weights.view({values, true, false, false}), margins);
      CHECK(excess(margins, expected, 30 * 14 * kRoundoff) <= 1);
    });
  }
}

TEST_CASE("softmax regression: equal margins are the first class; what diverged shows", "[softmax_in_place]") {
  const std::vector<std::uint64_t> offsets{0, 1};
  const std::vector<std::uint32_t> columns{0};
  with_all_kernels([&](const InPlaceKernels& kernels) {
    const auto run = [&](float weight, float label) {
      Buffer w(16);
      std::fill_n(w.data(), 3, weight);
      const LinearStep step{.rate = 1};
      const SoftmaxWeights weights{.weights = {w.data(), 16, 16}, .classes = 3};
      return kernels.softmax(SparseRows{offsets, columns, {}, 1}, Floats{label}, 0, 1, step, weights);
    };
    CHECK(run(2, 0).correct == 1);
    CHECK(run(2, 1).correct == 0);
    CHECK(run(2, 1).loss == Approx(std::log(3.0)));
    CHECK(std::isnan(run(std::nanf(""), 0).loss));
    CHECK(run(std::nanf(""), 0).correct == 0);
    CHECK(!std::isfinite(run(HUGE_VALF, 0).loss));
  });
}

}  // namespace unisono::kernels::cpu
