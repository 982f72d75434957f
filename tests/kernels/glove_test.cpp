#include "in_place_fixture.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kWords = 9, kContexts = 6;

/// Rows of D weights and a bias, and sums of squares behind them.
class TestVectors {
 public:
  TestVectors(Index count, Index dimension, std::uint64_t stream)
      : dimension_(dimension),
        squares_(random_floats(count * (dimension + 1), stream + 1, 1, 4)),
        width_((dimension + 16) / 16 * 16),
        matrix_(count, dimension + 1, stream, 0.5F, width_ + 16) {
    for (Index i = 0; i < count; ++i) {
      float* const sums = matrix_.row(i) + width_;
      std::fill_n(sums, width_, 0.0F);  // what fills them up
      std::copy_n(squares_.begin() + i * (dimension + 1), dimension + 1, sums);
    }
  }
  GloveRows view() { return {matrix_.view(), dimension_}; }
  Floats values() { return matrix_.values(); }
  Floats squares() {
    Floats result;
    for (Index i = 0; i < matrix_.rows(); ++i) {
      const float* const sums = matrix_.row(i) + width_;
      result.insert(result.end(), sums, sums + dimension_ + 1);
    }
    return result;
  }
  reference::GloveVectors widened() {
    return {matrix_.widened(), {widen(squares()), static_cast<std::size_t>(dimension_ + 1)}};
  }
  bool tidy() {
    bool result = true;
    for (Index i = 0; i < matrix_.rows(); ++i) {
      const float* const row = matrix_.row(i);
      for (Index j = dimension_ + 1; j < width_; ++j) result &= row[j] == 0 && row[width_ + j] == 0;
      for (Index j = 2 * width_; j < matrix_.view().stride; ++j) result &= row[j] == TestMatrix::kGap;
    }
    return result;
  }

 private:
  Index dimension_;
  Floats squares_;
  Index width_;
  TestMatrix matrix_;
};

/// Counts below and above x_max.
std::vector<SparseEntry> entries(Index count) {
  RandomStream random(5, Purpose::test);
  std::vector<SparseEntry> result;
  for (Index i = 0; i < count; ++i) {
    result.push_back({static_cast<std::uint32_t>(random.below(kWords)),
                      static_cast<std::uint32_t>(random.below(kContexts)), std::exp(random.uniform(-2, 4))});
  }
  return result;
}

constexpr GloveStep kStep{.rate = 0.02F, .x_max = 10, .alpha = 0.75F};

struct GloveCase {
  TestVectors words, contexts;
  explicit GloveCase(Index dimension) : words(kWords, dimension, 10), contexts(kContexts, dimension, 20) {}
  InPlaceSums run(const InPlaceKernels& kernels, std::span<const SparseEntry> some, const GloveStep& step = kStep) {
    return kernels.glove(some, step, words.view(), contexts.view());
  }
};

/// d errs by D (D + 3) u / 4 of its products and by 4 u of ln x, f by 12 u of itself, an update's root by 5 u, with
/// f |d| < D / 4 + 5. What a row errs by comes back D / 2 times, at rate · ½: some touches multiply it.
double glove_bound(Index dimension, double touches) {
  const auto d = static_cast<double>(dimension + 1), size = d / 4 + 5;
  const double once = 0.02 * 0.5 * (d * (d + 3) / 4 + 4 + 17 * size) + 3;
  return touches * once * kRoundoff * std::pow(1 + 0.02 * (d / 4 + size), touches);
}

void compare_glove(Index dimension, Index count) {
  const auto some = entries(count);
  GloveCase expected(dimension);
  reference::GloveVectors words = expected.words.widened(), contexts = expected.contexts.widened();
  double loss = 0;
  for (const SparseEntry& entry : some) loss += reference::glove(entry, kStep, words, contexts);
  with_all_kernels([&](const InPlaceKernels& kernels) {
    INFO("D = " << dimension << ", " << count << " entries");
    GloveCase c(dimension);
    const InPlaceSums sums = c.run(kernels, some);
    const double limit = glove_bound(dimension, std::max(1.0, static_cast<double>(count) / kContexts));
    CHECK(excess(c.words.values(), words.rows.values, limit) <= 1);
    CHECK(excess(c.contexts.values(), contexts.rows.values, limit) <= 1);
    CHECK(excess(c.words.squares(), words.squares.values,
                 [&](std::size_t i) { return 50 * limit * words.squares.values[i]; }) <= 1);
    CHECK(c.words.tidy());
    CHECK(c.contexts.tidy());
    CHECK(sums.loss == Approx(loss).epsilon(1e-4));
    CHECK(sums.examples == count);
  });
}

}  // namespace

TEST_CASE("GloVe's steps are the reference's", "[glove]") {
  for (Index dimension : {1, 4, 15, 16, 20, 50, 63, 100, 111, 112, 200}) compare_glove(dimension, 60);
  compare_glove(10, 0);
  compare_glove(10, 1);
}

TEST_CASE("one step of GloVe errs by less than 1e-6 of itself", "[glove]") {
  // Weights so small that θ − step rounds as the step does: w = v = 0 but for the biases, which are far from ln x.
  for (float x : {0.03F, 0.5F, 3.0F, 9.9F, 10.0F, 1000.0F}) {
    const double f = std::fmin(1.0, std::pow(static_cast<double>(x) / 10, 0.75)), d = 5 - std::log(x);
    with_all_kernels([&](const InPlaceKernels& kernels) {
      Buffer word(64), context(64);
      const GloveRows words{{word.data(), 64, 16}, 3}, contexts{{context.data(), 64, 16}, 3};
      std::fill_n(word.data() + 16, 16, 2.7F);
      std::fill_n(context.data() + 16, 16, 2.7F);
      word.data()[3] = 5, context.data()[0] = 1;
      const SparseEntry entry{0, 0, x};
      kernels.glove({&entry, 1}, kStep, words, contexts);
      const double root = std::sqrt(static_cast<double>(2.7F)), rate = static_cast<double>(kStep.rate);
      CHECK(word.data()[0] == Approx(-rate * f * d / root).epsilon(1e-6));
      CHECK(context.data()[3] == Approx(-rate * f * d / root).epsilon(1e-6));
    });
  }
}

TEST_CASE("the reference's step of GloVe goes down the gradient of its loss", "[glove]") {
  const GloveStep step{.rate = 1, .x_max = 10, .alpha = 0.75F};
  const SparseEntry entry{0, 0, 4};
  const auto vectors = [](const std::vector<double>& theta, std::size_t at) {
    reference::GloveVectors result;
    result.rows.values.assign(theta.data() + at, theta.data() + at + 4);
    result.squares.values.assign(4, 1.0);
    result.rows.width = result.squares.width = 4;
    return result;
  };
  const auto loss = [&](const std::vector<double>& theta) {
    reference::GloveVectors word = vectors(theta, 0), context = vectors(theta, 4);
    return reference::glove(entry, step, word, context);
  };
  const std::vector<double> theta{0.1, -0.2, 0.3, 0.05, 0.4, 0.2, -0.1, -0.3};
  reference::GloveVectors word = vectors(theta, 0), context = vectors(theta, 4);
  reference::glove(entry, step, word, context);
  std::vector<double> gradient;
  for (std::size_t k = 0; k < 4; ++k) gradient.push_back(theta[k] - word.rows.values[k]);
  for (std::size_t k = 0; k < 4; ++k) gradient.push_back(theta[4 + k] - context.rows.values[k]);
  CHECK(gradient_error(loss, theta, gradient) < 1e-7);
}

TEST_CASE("GloVe: two calls are one, to the bit", "[glove]") {
  const auto some = entries(500);
  const std::span<const SparseEntry> all = some;
  with_all_kernels([&](const InPlaceKernels& kernels) {
    GloveCase one(100), two(100);
    const double whole = one.run(kernels, all).loss;
    const double parts = two.run(kernels, all.first(201)).loss + two.run(kernels, all.subspan(201)).loss;
    CHECK(one.words.values() == two.words.values());
    CHECK(one.contexts.values() == two.contexts.values());
    CHECK(one.words.squares() == two.words.squares());
    CHECK(parts == Approx(whole).epsilon(1e-14));
  });
}

TEST_CASE("GloVe: a model that diverged, and a count of zero, have a loss that shows it", "[glove]") {
  const auto some = entries(100);
  with_all_kernels([&](const InPlaceKernels& kernels) {
    GloveCase c(20);
    c.words.view().weights.row(3)[4] = std::nanf("");
    CHECK(std::isnan(c.run(kernels, some).loss));
    const SparseEntry none{0, 0, 0};
    CHECK(!std::isfinite(GloveCase(20).run(kernels, {&none, 1}).loss));
  });
}

}  // namespace unisono::kernels::cpu
