#include <limits>

#include "sparse_case.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr MarginLoss kLosses[] = {MarginLoss::logistic, MarginLoss::hinge, MarginLoss::squared_hinge,
                                  MarginLoss::squared};

/// Every choice that changes what a kernel does.
struct LinearOptions {
  MarginLoss loss;
  bool values, bias, penalties, averaged;
  std::string text() const {
    return "loss " + std::to_string(static_cast<int>(loss)) + (values ? " values" : "") + (bias ? " bias" : "") +
           (penalties ? " penalties" : "") + (averaged ? " averaged" : "");
  }
};

template <typename Function>
void for_all_linear_options(const Function& function) {
  for (MarginLoss loss : kLosses) {
    for (int bits = 0; bits < 16; ++bits) {
      function(LinearOptions{loss, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
    }
  }
}

/// Weights and sums, the bias behind them.
struct TestLinearWeights {
  Floats w, u;
  explicit TestLinearWeights(Index width) : w(random_floats(width + 1, 6, -0.5F, 0.5F)), u(w.size()) {}
  LinearWeights view(const LinearOptions& options) {
    LinearWeights result{.weights = w.data()};
    if (options.bias) result.bias = &w.back();
    if (options.averaged) result.weight_sums = u.data();
    if (options.bias && options.averaged) result.bias_sum = &u.back();
    return result;
  }
};

struct ExpectedLinear {
  reference::Weights weights;
  std::vector<double> margins;
  InPlaceSums sums;
};

/// The same as reference_linear_run in mini-batches, all of whose margins come first; the bias takes the mean of their
/// steps.
ExpectedLinear reference_run_in_batches(const SparseCase& c, const LinearOptions& options, std::size_t batch) {
  const TestLinearWeights begin(c.width);
  ExpectedLinear result{{widen(begin.w), std::vector<double>(begin.w.size())}, {}, {}};
  auto& [w, u] = result.weights;
  const LinearStep step = c.step(options.penalties);
  for (std::size_t first = 0; first < c.size(); first += batch) {
    const std::size_t last = std::min(first + batch, c.size());
    const reference::Weights old = result.weights;
    for (std::size_t i = first; i < last; ++i) {
      const double answer = c.targets[i], before = step.updates_before + static_cast<double>(i);
      double z = options.bias ? old.w.back() : 0;
      for (const auto& [j, value] : c.row(i, options.values)) z += old.w[j] * value;
      const double move = step.rate * reference::margin_derivative(options.loss, z, answer);
      for (const auto& [j, value] : c.row(i, options.values)) {
        reference::linear_update(w[j], u[j], move * value, step.spread == nullptr ? 0 : step.spread[j], step, before);
      }
      const double share = options.bias ? move / static_cast<double>(last - first) : 0;
      w.back() -= share;
      u.back() -= before * share;
      result.sums.loss += reference::margin_loss(options.loss, z, answer);
      result.sums.squared_error += (z - answer) * (z - answer);
      result.sums.absolute_error += std::abs(z - answer);
      if ((z > 0) == (answer > 0.5)) ++result.sums.correct;
    }
  }
  if (!options.averaged) std::fill(u.begin(), u.end(), 0.0);
  return result;
}

ExpectedLinear reference_linear_run(const SparseCase& c, const LinearOptions& options) {
  const TestLinearWeights begin(c.width);
  ExpectedLinear result{{widen(begin.w), std::vector<double>(begin.w.size())}, {}, {}};
  const LinearStep step = c.step(options.penalties);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const double answer = c.targets[i], before = step.updates_before + static_cast<double>(i);
    const double z = reference::linear(c.row(i, options.values), answer, options.loss, step, options.bias ? 1 : 0,
                                       before, result.weights);
    result.margins.push_back(z);
    result.sums.loss += reference::margin_loss(options.loss, z, answer);
    result.sums.squared_error += (z - answer) * (z - answer);
    result.sums.absolute_error += std::abs(z - answer);
    if ((z > 0) == (answer > 0.5)) ++result.sums.correct;
  }
  if (!options.averaged) std::fill(result.weights.u.begin(), result.weights.u.end(), 0.0);
  return result;
}

/// A margin of n values errs by some n u of their size, < 1 each, and by what earlier errors made of the weights: a
/// derivative's slope is at most 1 and rate · n < 1, so that errors add up and hardly grow. So after `examples` of them
/// a weight errs by at most (rate n + 3) u each; a sum by as much times the updates before, < 200.
double linear_bound(double examples, double most) { return examples * (0.05 * most * most + 3) * kRoundoff; }

void check_linear(const SparseCase& c, const LinearOptions& options, const ExpectedLinear& expected,
                  const InPlaceSums& sums, const TestLinearWeights& weights) {
  const auto count = static_cast<double>(c.size());
  const double limit = linear_bound(count, 12);
  CHECK(excess(weights.w, expected.weights.w, limit) <= 1);
  CHECK(excess(weights.u, expected.weights.u, 200 * limit) <= 1);
  CHECK(sums.loss == Approx(expected.sums.loss).margin(count * limit));
  CHECK(sums.examples == c.count());
  if (options.loss == MarginLoss::squared) {
    CHECK(sums.squared_error == Approx(expected.sums.squared_error).margin(10 * count * limit));
    CHECK(sums.absolute_error == Approx(expected.sums.absolute_error).margin(count * limit));
    CHECK(sums.correct == 0);
  } else {
    CHECK(sums.correct == expected.sums.correct);
  }
}

}  // namespace

TEST_CASE("linear models' steps on sparse rows are the reference's, for all options", "[linear]") {
  for (const auto& shape : {std::array<Index, 3>{37, 30, 12}, {1, 3, 2}, {5, 1, 1}, {300, 9000, 12}}) {
    const SparseCase c(shape[0], shape[1], shape[2], 2);
    for_all_linear_options([&](const LinearOptions& options) {
      const ExpectedLinear expected = reference_linear_run(c, options);
      with_all_kernels([&](const InPlaceKernels& kernels) {
        INFO(shape[0] << " rows of " << shape[1] << ", " << options.text());
        TestLinearWeights weights(c.width);
        const InPlaceSums sums = kernels.linear(c.rows(options.values), c.targets, 0, c.count(), options.loss,
                                                c.step(options.penalties), weights.view(options));
        check_linear(c, options, expected, sums, weights);
      });
    });
  }
}

TEST_CASE("linear models' steps on dense rows are the reference's, for all options", "[linear]") {
  for (Index width : {1, 7, 16, 30, 100}) {
    SparseCase c(37, width, std::min<Index>(width, 12), 2);
    const Floats dense = c.dense();
    for_all_linear_options([&](LinearOptions options) {
      if (!options.values) return;
      // The reference looks at every feature, as penalties do here.
      SparseCase full = c;
      full.offsets.assign(1, 0), full.columns.clear(), full.values = dense;
      for (Index i = 0; i < c.count(); ++i) {
        for (Index j = 0; j < width; ++j) full.columns.push_back(static_cast<std::uint32_t>(j));
        full.offsets.push_back(full.columns.size());
      }
      const ExpectedLinear expected = reference_linear_run(full, options);
      with_all_kernels([&](const InPlaceKernels& kernels) {
        INFO(width << " features, " << options.text());
        TestLinearWeights weights(width);
        const InPlaceSums sums = kernels.linear(dense, c.targets, c.count(), width, options.loss,
                                                c.step(options.penalties), weights.view(options));
        check_linear(c, options, expected, sums, weights);
      });
    });
  }
}

TEST_CASE("steps on mini-batches are the reference's, for all options", "[linear]") {
  for (const auto& shape : {std::array<Index, 3>{37, 30, 12}, {300, 9000, 40}}) {
    const SparseCase c(shape[0], shape[1], shape[2], 2);
    for (const Index batch : {2, 16, 1024}) {
      for_all_linear_options([&](const LinearOptions& options) {
        const ExpectedLinear expected = reference_run_in_batches(c, options, static_cast<std::size_t>(batch));
        with_all_kernels([&](const InPlaceKernels& kernels) {
          INFO(shape[0] << " rows of " << shape[1] << " in batches of " << batch << ", " << options.text());
          TestLinearWeights weights(c.width);
          LinearStep step = c.step(options.penalties);
          step.mini_batch = batch;
          const InPlaceSums sums = kernels.linear(c.rows(options.values), c.targets, 0, c.count(), options.loss, step,
                                                  weights.view(options));
          check_linear(c, options, expected, sums, weights);
        });
      });
    }
  }
}

TEST_CASE("… and with the bits of rows, also from one piece of them to the next", "[linear]") {
  for (const auto& shape : {std::array<Index, 3>{37, 30, 12}, {300, 128, 12}, {40, 5, 4}, {70, 64, 7}}) {
    SparseCase c(shape[0], shape[1], shape[2], 2);
    for (const Index batch : {2, 16, 40, 1024}) {
      for_all_linear_options([&](const LinearOptions& options) {
        if (options.values || options.averaged) return;
        const auto step_with = [&](std::vector<RowBits>& bits) {
          LinearStep step = c.step(options.penalties);
          step.mini_batch = batch;
          step.row_bits = bits.data();
          step.l1 = 0;
          return step;
        };
        with_all_kernels([&](const InPlaceKernels& kernels) {
          if (!kernels.keeps_bits(c.width, static_cast<double>(c.width))) return;
          INFO(shape[0] << " rows of " << shape[1] << " in batches of " << batch << ", " << options.text());
          std::vector<RowBits> bits(c.size()), none;
          LinearStep plain_step = step_with(none), step = step_with(bits);
          plain_step.row_bits = nullptr;
          const Index cut = c.count() / batch / 2 * batch;
          for (int pass = 0; pass < 2; ++pass) {  // which fills them in; which reads them
            TestLinearWeights plain(c.width), weights(c.width), in_two(c.width);
            const InPlaceSums expected =
                kernels.linear(c.rows(false), c.targets, 0, c.count(), options.loss, plain_step, plain.view(options));
            const InPlaceSums sums =
                kernels.linear(c.rows(false), c.targets, 0, c.count(), options.loss, step, weights.view(options));
            // Sums of at most 12 values in another order, and the same steps of them; see `linear_bound`.
            const double limit = linear_bound(static_cast<double>(c.size()), 12);
            CHECK(excess(weights.w, widen(plain.w), limit) <= 1);
            CHECK(sums.loss == Approx(expected.loss).margin(static_cast<double>(c.size()) * limit));
            CHECK(sums.correct == expected.correct);
            for (const auto& [first, last] : {std::pair<Index, Index>{0, cut}, {cut, c.count()}}) {
              kernels.linear(c.rows(false), c.targets, first, last, options.loss, step, in_two.view(options));
            }
            CHECK(in_two.w == weights.w);
          }
        });
      });
    }
  }
}

TEST_CASE("… and on dense rows", "[linear]") {
  const SparseCase c(37, 30, 12, 2);
  const Floats dense = c.dense();
  for_all_linear_options([&](LinearOptions options) {
    if (!options.values || options.penalties) return;  // which change weights of features that are 0, too
    const ExpectedLinear expected = reference_run_in_batches(c, options, 16);
    with_all_kernels([&](const InPlaceKernels& kernels) {
      INFO(options.text());
      TestLinearWeights weights(c.width);
      LinearStep step = c.step(options.penalties);
      step.mini_batch = 16;
      const InPlaceSums sums =
          kernels.linear(dense, c.targets, c.count(), c.width, options.loss, step, weights.view(options));
      check_linear(c, options, expected, sums, weights);
    });
  });
}

TEST_CASE("kept spreads do not change a step", "[linear]") {
  const SparseCase c(300, 9000, 40, 2);
  for_all_linear_options([&](const LinearOptions& options) {
    if (!options.penalties) return;
    const ExpectedLinear expected = reference_linear_run(c, options);
    with_all_kernels([&](const InPlaceKernels& kernels) {
      if (!kernels.keeps_spreads(c.width)) return;
      INFO(options.text());
      Floats spreads(c.columns.size());
      LinearStep step = c.step(options.penalties);
      step.value_spread = spreads.data();
      for (int pass = 0; pass < 3; ++pass) {  // which fills them; which reads them; beside other threads
        step.alone = pass < 2;
        TestLinearWeights weights(c.width);
        const InPlaceSums sums =
            kernels.linear(c.rows(options.values), c.targets, 0, c.count(), options.loss, step, weights.view(options));
        check_linear(c, options, expected, sums, weights);
      }
      for (std::size_t k = 0; k < spreads.size(); ++k) CHECK(spreads[k] == c.spread[c.columns[k]]);
    });
  });
}

TEST_CASE("steps on the parts of the features are the steps on all of them", "[linear]") {
  const SparseCase c(37, 60, 30, 2);
  const Floats dense = c.dense();
  std::vector<std::uint64_t> cuts;  // of features below 32
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto begin = c.columns.begin() + static_cast<std::ptrdiff_t>(c.offsets[i]);
    const auto end = c.columns.begin() + static_cast<std::ptrdiff_t>(c.offsets[i + 1]);
    cuts.push_back(static_cast<std::uint64_t>(std::lower_bound(begin, end, 32U) - c.columns.begin()));
  }
  const std::span<const std::uint64_t> offsets = c.offsets;
  const FeaturePart parts[2] = {{0, 32, offsets.first(c.size()), cuts}, {32, 60, cuts, offsets.subspan(1)}};
  for_all_linear_options([&](const LinearOptions& options) {
    with_all_kernels([&](const InPlaceKernels& kernels) {
      for (const bool sparse : {true, false}) {
        if (!sparse && !options.values) continue;
        INFO(options.text() << (sparse ? ", sparse" : ", dense"));
        const SparseRows all = c.rows(options.values);
        const LinearRows rows{.sparse = sparse ? &all : nullptr, .last = c.count(), .values = dense, .features = 60};
        LinearStep step = c.step(options.penalties);
        TestLinearWeights whole(c.width), divided(c.width);
        step.mini_batch = kMostMiniBatch;
        const InPlaceSums sums =
            sparse ? kernels.linear(all, c.targets, 0, c.count(), options.loss, step, whole.view(options))
                   : kernels.linear(dense, c.targets, c.count(), c.width, options.loss, step, whole.view(options));
        Floats z(c.size()), share(c.size()), moves(c.size());
        LinearWeights weights = divided.view(options);
        for (const FeaturePart& part : parts) {
          kernels.part_margins(rows, part, weights, share);
          for (std::size_t i = 0; i < z.size(); ++i) z[i] += share[i];
          weights.bias = nullptr;
        }
        InPlaceSums added;
        kernels.moves(options.loss, c.targets, {}, step.rate, z, moves, &added);
        weights = divided.view(options);
        for (const FeaturePart& part : parts) {
          kernels.part_steps(rows, part, step, weights, moves);
          weights.bias = weights.bias_sum = nullptr;
        }
        // Margins of at most 30 values whose sums have another order: some 30 u each, and each weight takes at most 37
        // steps of 0.05 times that.
        const double limit = 30 * 37 * kRoundoff;
        CHECK(excess(divided.w, widen(whole.w), limit) <= 1);
        CHECK(excess(divided.u, widen(whole.u), 200 * limit) <= 1);
        CHECK(added.loss == Approx(sums.loss).margin(37 * limit));
        CHECK(added.correct == sums.correct);
        CHECK(added.examples == sums.examples);
      }
    });
  });
}

TEST_CASE("the derivatives of margin losses are those of their losses", "[linear]") {
  for (MarginLoss loss : kLosses) {
    for (double answer : {0.0, 1.0}) {
      const auto f = [&](const std::vector<double>& z) { return reference::margin_loss(loss, z[0], answer); };
      for (double z : {-2.5, -0.3, 0.4, 1.7}) {
        CHECK(gradient_error(f, {z}, {reference::margin_derivative(loss, z, answer)}) < 1e-7);
      }
    }
  }
}

TEST_CASE("a linear step is what one works out by hand", "[linear]") {
  // Squared loss, x = (2, 0, 1), w = (1, 5, −1), b = 0.5, t = 0.5: z = 1.5, derivative 1, rate 0.25.
  // λ₂ s = 0.5 · (1, ·, 2), λ₁ s = 0.5 · (1, ·, 2):
  //   w_0 = (1 − 0.125) − 0.5 = 0.375, then 0.375 − 0.125 = 0.25;   w_2 = −(1 − 0.25) − 0.25 = −1, then −0.75
  const std::vector<std::uint64_t> offsets{0, 2};
  const std::vector<std::uint32_t> columns{0, 2};
  const Floats values{2, 1}, targets{0.5F}, spread{1, 1, 2};
  const LinearStep step{.rate = 0.25F, .l1 = 0.5F, .l2 = 0.5F, .spread = spread.data(), .updates_before = 4};
  with_all_kernels([&](const InPlaceKernels& kernels) {
    Floats w{1, 5, -1}, u{0, 0, 0};
    float bias = 0.5F, bias_sum = 0;
    const InPlaceSums sums = kernels.linear(SparseRows{offsets, columns, values, 3}, targets, 0, 1, MarginLoss::squared,
                                            step, {w.data(), &bias, u.data(), &bias_sum});
    CHECK(w == Floats{0.25F, 5, -0.75F});
    CHECK(u == Floats{-3, 0, 1});  // 4 updates before · the change
    CHECK(bias == 0.25F);
    CHECK(bias_sum == -1);
    CHECK(sums.loss == 0.5);
    CHECK(sums.squared_error == 1);
    CHECK(sums.absolute_error == 1);
  });
}

TEST_CASE("penalties stop at zero", "[linear]") {
  const std::vector<std::uint64_t> offsets{0, 2};
  const std::vector<std::uint32_t> columns{0, 1};
  const Floats targets{1}, spread{1000, 1000};
  with_all_kernels([&](const InPlaceKernels& kernels) {
    for (const auto& [l1, l2] : {std::pair{1.0F, 0.0F}, {0.0F, 1.0F}, {1.0F, 1.0F}}) {
      Floats w{3, -2};  // a margin of 1: no gradient
      const LinearStep step{.rate = 0.1F, .l1 = l1, .l2 = l2, .spread = spread.data()};
      kernels.linear(SparseRows{offsets, columns, {}, 2}, targets, 0, 1, MarginLoss::hinge, step, {w.data()});
      CHECK(w == Floats{0, 0});
    }
  });
}

TEST_CASE("linear models: two calls are one, to the bit", "[linear]") {
  const SparseCase c(700, 50, 12, 2);
  const LinearOptions options{MarginLoss::logistic, true, true, true, true};
  with_all_kernels([&](const InPlaceKernels& kernels) {
    LinearStep step = c.step(options.penalties);
    TestLinearWeights one(c.width), two(c.width);
    const auto run = [&](TestLinearWeights& weights, Index first, Index last) {
      step.updates_before = static_cast<double>(100 + first);
      return kernels.linear(c.rows(true), c.targets, first, last, options.loss, step, weights.view(options));
    };
    const InPlaceSums whole = run(one, 0, 700), first = run(two, 0, 301), second = run(two, 301, 700);
    CHECK(equal_sums(run(two, 17, 17), {}));
    CHECK(one.w == two.w);
    CHECK(one.u == two.u);
    CHECK(first.loss + second.loss == Approx(whole.loss).epsilon(1e-14));
    CHECK(first.correct + second.correct == whole.correct);
  });
}

TEST_CASE("margins of sparse rows are the reference's", "[linear]") {
  const SparseCase c(40, 30, 12, 2);
  for (bool values : {false, true}) {
    TestLinearWeights weights(c.width);
    const LinearWeights view{.weights = weights.w.data(), .bias = &weights.w.back()};
    std::vector<double> expected;
    for (std::size_t i = 3; i < c.size(); ++i) {
      double z = weights.w.back();
      for (const auto& [j, value] : c.row(i, values)) z += weights.w[j] * value;
      expected.push_back(z);
    }
    with_all_kernels([&](const InPlaceKernels& kernels) {
      Floats margins(expected.size());
      kernels.margins(c.rows(values), 3, c.count(), view, margins);
      CHECK(excess(margins, expected, 30 * 14 * kRoundoff) <= 1);
    });
  }
}

TEST_CASE("linear models: what diverged shows; far margins give steps of 0 or 1", "[linear]") {
  const std::vector<std::uint64_t> offsets{0, 1};
  const std::vector<std::uint32_t> columns{0};
  const float infinity = std::numeric_limits<float>::infinity();
  with_all_kernels([&](const InPlaceKernels& kernels) {
    const auto loss_at = [&](float weight, float answer, MarginLoss loss) {
      return kernels
          .linear(SparseRows{offsets, columns, {}, 1}, Floats{answer}, 0, 1, loss, {.rate = 1}, {.weights = &weight})
          .loss;
    };
    for (MarginLoss loss : kLosses) CHECK(std::isnan(loss_at(std::nanf(""), 1, loss)));
    CHECK(loss_at(infinity, 0, MarginLoss::logistic) == infinity);
    CHECK(loss_at(infinity, 1, MarginLoss::logistic) == 0);
    CHECK(loss_at(-infinity, 0, MarginLoss::logistic) == 0);
    CHECK(loss_at(infinity, 0, MarginLoss::hinge) == infinity);
    float w = 200, bias = 0;
    kernels.linear(SparseRows{offsets, columns, {}, 1}, Floats{0}, 0, 1, MarginLoss::logistic, {.rate = 1},
                   {&w, &bias});
    CHECK(w == 199);
    CHECK(bias == -1);
  });
}

}  // namespace unisono::kernels::cpu
