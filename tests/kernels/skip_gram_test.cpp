#include <limits>

#include "window_case.hpp"

namespace unisono::kernels::cpu {
namespace {

/// Of D products below 1/4: each rounds, and so does each sum; half of a σ's slope, and what σ itself errs by, makes an
/// error of E of rate · (D (D + 2) u / 16 + 6 u). A row takes up to n such, times ½, and rounds n + 1 times, where its
/// values stay below 1.
double skip_gram_bound(Index width, std::size_t terms) {
  const auto d = static_cast<double>(width), n = static_cast<double>(terms), rate = static_cast<double>(kRate);
  return kRoundoff * (n * rate * 0.5 * (d * (d + 2) / 16 + 6) + n + 1);
}

void compare_skip_gram(const Words& context, Index outputs, Index width) {
  WindowCase expected(context, outputs, width);
  reference::Matrix x = expected.x.widened(), y = expected.y.widened();
  const double loss = reference::skip_gram(context, expected.wanted(), static_cast<double>(kRate), x, y);
  with_all_kernels([&](const InPlaceKernels& kernels) {
    INFO(context.size() << " words, " << outputs << " outputs, width " << width);
    WindowCase c(context, outputs, width);
    const InPlaceSums sums = c.skip_gram(kernels, true);
    CHECK(excess(c.x.values(), x.values, skip_gram_bound(width, context.size() * c.outputs.size())) <= 1);
    CHECK(excess(c.y.values(), y.values, skip_gram_bound(width, context.size())) <= 1);
    CHECK(c.x.tidy());
    CHECK(c.y.tidy());
    const auto pairs = static_cast<double>(context.size() * c.outputs.size());
    CHECK(sums.loss ==
          Approx(loss).margin(pairs * skip_gram_bound(width, 1) / static_cast<double>(kRate)).epsilon(1e-6));
    CHECK(sums.examples == static_cast<std::int64_t>(pairs));
  });
}

}  // namespace

TEST_CASE("a window's step of skip-gram is the reference's", "[skip_gram]") {
  for (Index words : {1, 2, 3, 4, 5, 6, 7, 9, 10, 17}) {
    for (Index outputs : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 20}) compare_skip_gram(first_words(words), outputs, 48);
  }
  for (Index width : {1, 4, 16, 17, 32, 50, 100, 112, 300, 512, 700}) compare_skip_gram(first_words(7), 6, width);
  compare_skip_gram(first_words(kMaximumWindow), kMaximumOutputs, 40);
}

TEST_CASE("updates of a word that stands in a window twice add up", "[skip_gram]") {
  compare_skip_gram({5, 5}, 6, 100);
  compare_skip_gram({1, 2, 1, 3, 4, 2, 1, 9, 8, 0}, 6, 100);
  compare_skip_gram({1, 2, 1, 3, 4, 2, 1, 9, 8, 0}, 11, 33);
  Words long_context = first_words(40);
  long_context[39] = 0;
  compare_skip_gram(long_context, 3, 16);
}

TEST_CASE("the reference's step of skip-gram goes down the gradient of its loss", "[skip_gram]") {
  WindowCase c({0, 2, 0}, 4, 5);
  const reference::Matrix x = c.x.widened(), y = c.y.widened();
  std::vector<double> both = x.values, gradient;
  both.insert(both.end(), y.values.begin(), y.values.end());
  const auto loss = [&](const std::vector<double>& theta) {
    reference::Matrix a{{theta.begin(), theta.begin() + static_cast<std::ptrdiff_t>(x.values.size())}, x.width};
    reference::Matrix b{{theta.begin() + static_cast<std::ptrdiff_t>(x.values.size()), theta.end()}, y.width};
    return reference::skip_gram(c.context, c.wanted(), 0.0, a, b);
  };
  reference::Matrix a = x, b = y;
  reference::skip_gram(c.context, c.wanted(), 1.0, a, b);
  for (std::size_t i = 0; i < x.values.size(); ++i) gradient.push_back(x.values[i] - a.values[i]);
  for (std::size_t i = 0; i < y.values.size(); ++i) gradient.push_back(y.values[i] - b.values[i]);
  CHECK(gradient_error(loss, both, gradient) < 1e-7);
}

TEST_CASE("skip-gram: the same window gives the same bits, with the loss and without", "[skip_gram]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    WindowCase one({1, 2, 3, 2, 9}, 6, 100), two({1, 2, 3, 2, 9}, 6, 100);
    for (int step = 0; step < 3; ++step) {
      one.skip_gram(kernels, true);
      const InPlaceSums nothing = two.skip_gram(kernels, false);
      CHECK(equal_sums(nothing, {}));
    }
    CHECK(one.x.values() == two.x.values());
    CHECK(one.y.values() == two.y.values());
  });
}

TEST_CASE("skip-gram: the next window's rows are prefetched, and nothing else", "[skip_gram]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    for (Index outputs : {6, 13}) {
      WindowCase one({1, 2, 3, 2, 9}, outputs, 100), two({1, 2, 3, 2, 9}, outputs, 100);
      two.next_context = {5, 1, 0};
      two.next_rows = {69, 0, 12, 3};
      CHECK(equal_sums(one.skip_gram(kernels, true), two.skip_gram(kernels, true)));
      CHECK(one.x.values() == two.x.values());
      CHECK(one.y.values() == two.y.values());
    }
  });
}

TEST_CASE("skip-gram: a window of no words changes nothing", "[skip_gram]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    WindowCase c({}, 3, 20), untouched({}, 3, 20);
    CHECK(equal_sums(c.skip_gram(kernels, true), {}));
    CHECK(c.y.values() == untouched.y.values());
  });
}

TEST_CASE("skip-gram: a model that diverged has a loss that shows it; far margins saturate", "[skip_gram]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    WindowCase broken({1, 2, 3}, 6, 20);
    broken.x.row(2)[7] = std::nanf("");
    CHECK(std::isnan(broken.skip_gram(kernels, true).loss));
    CHECK(std::isnan(broken.y.row(69)[3]));
    CHECK(std::isnan(broken.x.row(2)[3]));
    CHECK(std::isfinite(broken.x.row(1)[3]));

    WindowCase far({1, 2}, 2, 20);
    std::fill_n(far.x.row(1), 20, 1e20F);
    std::fill_n(far.y.row(69), 20, 1e20F);   // z = ∞, target 1: no error, and an infinite margin on the right side
    std::fill_n(far.y.row(68), 20, -1e20F);  // z = −∞, target 0
    std::fill_n(far.x.row(2), 20, 0.0F);
    far.skip_gram(kernels, false);
    CHECK(far.x.row(1)[0] == 1e20F);
    WindowCase infinite({1}, 2, 20);
    std::fill_n(infinite.x.row(1), 20, 1e20F);
    std::fill_n(infinite.y.row(68), 20, 1e20F);  // z = ∞, target 0
    CHECK(infinite.skip_gram(kernels, true).loss == std::numeric_limits<double>::infinity());
  });
}

}  // namespace unisono::kernels::cpu
