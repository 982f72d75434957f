#include "window_case.hpp"

namespace unisono::kernels::cpu {
namespace {

/// h, the mean of words below ½, errs by (C + 1) u / 2; z by D (D + C + 3) u / 4 with it; an error e by rate / 4 of
/// that and 6 rate u. A row takes up to n errors, times ½, and rounds n + 1 times.
double cbow_bound(Index width, std::size_t words, std::size_t terms) {
  const auto d = static_cast<double>(width), c = static_cast<double>(words), n = static_cast<double>(terms);
  return kRoundoff * (n * static_cast<double>(kRate) * (0.5 * (d * (d + c + 3) / 16 + 6) + c) + n + 1);
}

void compare_cbow(const Words& context, Index outputs, Index width) {
  WindowCase expected(context, outputs, width);
  reference::Matrix x = expected.x.widened(), y = expected.y.widened();
  const double loss = reference::cbow(context, expected.wanted(), static_cast<double>(kRate), x, y);
  with_all_kernels([&](const InPlaceKernels& kernels) {
    INFO(context.size() << " words, " << outputs << " outputs, width " << width);
    WindowCase c(context, outputs, width);
    const InPlaceSums sums = c.cbow(kernels, true);
    // A word that stands there n times takes δ as often.
    CHECK(excess(c.x.values(), x.values, cbow_bound(width, context.size(), context.size() * c.outputs.size())) <= 1);
    CHECK(excess(c.y.values(), y.values, cbow_bound(width, context.size(), 1)) <= 1);
    CHECK(c.x.tidy());
    CHECK(c.y.tidy());
    const auto pairs = static_cast<double>(c.outputs.size());
    CHECK(sums.loss == Approx(loss).margin(pairs * cbow_bound(width, context.size(), 1) / 0.1).epsilon(1e-6));
    CHECK(sums.examples == outputs);
  });
}

}  // namespace

TEST_CASE("a window's step of a bag of words is the reference's", "[cbow]") {
  for (Index words : {1, 2, 3, 6, 10}) {
    for (Index outputs : {1, 2, 3, 4, 5, 6, 7, 12, 13, 20}) compare_cbow(first_words(words), outputs, 48);
  }
  for (Index width : {1, 4, 16, 17, 50, 100, 112, 300, 700}) compare_cbow(first_words(7), 6, width);
  compare_cbow(first_words(kMaximumWindow), kMaximumOutputs, 40);
}

TEST_CASE("a word that stands in a bag twice moves twice", "[cbow]") {
  compare_cbow({5, 5}, 6, 100);
  compare_cbow({1, 2, 1, 3, 4, 2, 1, 9, 8, 0}, 11, 33);
}

TEST_CASE("the reference's step of a bag of words goes down the gradient of its loss", "[cbow]") {
  // Two different words: each takes twice the gradient, for h is half of each.
  WindowCase c({0, 2}, 4, 5);
  const reference::Matrix x = c.x.widened(), y = c.y.widened();
  reference::Matrix a = x, b = y;
  reference::cbow(c.context, c.wanted(), 1.0, a, b);
  std::vector<double> both = x.values, gradient;
  both.insert(both.end(), y.values.begin(), y.values.end());
  for (std::size_t i = 0; i < x.values.size(); ++i) gradient.push_back((x.values[i] - a.values[i]) / 2);
  for (std::size_t i = 0; i < y.values.size(); ++i) gradient.push_back(y.values[i] - b.values[i]);
  const auto loss = [&](const std::vector<double>& theta) {
    const auto end = theta.begin() + static_cast<std::ptrdiff_t>(x.values.size());
    reference::Matrix inputs{{theta.begin(), end}, x.width}, outputs{{end, theta.end()}, y.width};
    return reference::cbow(c.context, c.wanted(), 0.0, inputs, outputs);
  };
  // Outputs' steps are of the gradient at the old h and δ of the old outputs, as the formula has it.
  CHECK(gradient_error(loss, both, gradient) < 1e-7);
}

TEST_CASE("bags of words: the same bits again, with the loss and without", "[cbow]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    WindowCase one({1, 2, 3, 2, 9}, 6, 100), two({1, 2, 3, 2, 9}, 6, 100);
    for (int step = 0; step < 3; ++step) {
      one.cbow(kernels, true);
      CHECK(equal_sums(two.cbow(kernels, false), {}));
    }
    CHECK(one.x.values() == two.x.values());
    CHECK(one.y.values() == two.y.values());
  });
}

TEST_CASE("bags of words: the next window's rows are prefetched, and nothing else", "[cbow]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    for (Index outputs : {6, 13}) {
      WindowCase one({1, 2, 3, 2, 9}, outputs, 100), two({1, 2, 3, 2, 9}, outputs, 100);
      two.next_context = {5, 1, 0};
      two.next_rows = {69, 0, 12, 3};
      CHECK(equal_sums(one.cbow(kernels, true), two.cbow(kernels, true)));
      CHECK(one.x.values() == two.x.values());
      CHECK(one.y.values() == two.y.values());
    }
  });
}

TEST_CASE("bags of words: none changes nothing, and what diverged shows", "[cbow]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    WindowCase empty({}, 3, 20), untouched({}, 3, 20);
    CHECK(equal_sums(empty.cbow(kernels, true), {}));
    CHECK(empty.y.values() == untouched.y.values());
    WindowCase broken({1, 2, 3}, 6, 20);
    broken.x.row(2)[7] = std::nanf("");
    CHECK(std::isnan(broken.cbow(kernels, true).loss));
    CHECK(std::isnan(broken.x.row(1)[3]));
  });
}

}  // namespace unisono::kernels::cpu
