#include "in_place_fixture.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kUsers = 7, kItems = 5, kRatings = 60;

/// Rows of K factors with random biases and h.
class TestFactors {
 public:
  TestFactors(Index count, Index rank, std::uint64_t stream) : rank_(rank), matrix_(count, rank, stream, 0.5F, 32) {
    const Floats bias = random_floats(count, stream + 1), squares = random_floats(count, stream + 2, 1, 2);
    for (Index i = 0; i < count; ++i) {
      std::fill_n(matrix_.row(i) + matrix_.view().width, 32, 0.0F);
      *view().bias(i) = bias[static_cast<std::size_t>(i)];
      *view().squares(i) = squares[static_cast<std::size_t>(i)];
    }
  }
  FactorRows view() { return {matrix_.view(), rank_}; }
  Floats values() { return matrix_.values(); }
  Floats biases() { return ends(0); }
  Floats squares() { return ends(1); }
  reference::Factors widened() { return {matrix_.widened(), widen(biases()), widen(squares())}; }
  /// The padding is zero, and so is what lies behind h.
  bool tidy() {
    bool result = true;
    const RowMatrix view = matrix_.view();
    for (Index i = 0; i < matrix_.rows(); ++i) {
      for (Index j = rank_; j < view.stride; ++j) {
        result &= j == view.width || j == view.width + 1 || view.row(i)[j] == 0;
      }
    }
    return result;
  }

 private:
  Floats ends(Index at) {
    Floats result;
    for (Index i = 0; i < matrix_.rows(); ++i) result.push_back(matrix_.row(i)[matrix_.view().width + at]);
    return result;
  }

  Index rank_;
  TestMatrix matrix_;
};

std::vector<SparseEntry> ratings(Index count) {
  RandomStream random(2, Purpose::test);
  std::vector<SparseEntry> result;
  for (Index i = 0; i < count; ++i) {
    result.push_back({static_cast<std::uint32_t>(random.below(kUsers)),
                      static_cast<std::uint32_t>(random.below(kItems)), random.uniform(0, 2)});
  }
  return result;
}

struct FactorCase {
  TestFactors users, items;
  explicit FactorCase(Index rank) : users(kUsers, rank, 10), items(kItems, rank, 20) {}
  InPlaceSums run(const InPlaceKernels& kernels, std::span<const SparseEntry> entries, const FactorStep& step) {
    return kernels.factorize(entries, step, users.view(), items.view());
  }
};

FactorStep options(bool adagrad, bool biases) {
  return {.rate = 0.02F, .mean = 0.5F, .user_l2 = 0.1F, .item_l2 = 0.05F, .adagrad = adagrad, .biases = biases};
}

/// A dot product of K terms below 1/4 errs by K (K + 2) u / 4, of which rate / 2 come into a factor, beside some four
/// roundings. What a row errs by reaches the next rating's error K / 2 times, and grows by 1 + rate (K / 4 + |e|); a
/// row has some `touches` ratings, |e| < 3.
double factor_bound(Index rank, double touches) {
  const auto k = static_cast<double>(rank);
  return touches * kRoundoff * (0.02 * k * (k + 2) / 8 + 4) * std::pow(1 + 0.02 * (k / 4 + 3), touches);
}

void compare_factorize(Index rank, const FactorStep& step, Index count) {
  const auto entries = ratings(count);
  FactorCase expected(rank);
  reference::Factors users = expected.users.widened(), items = expected.items.widened();
  double squared = 0, absolute = 0;
  for (const SparseEntry& entry : entries) {
    const double e = reference::factorize(entry, step, users, items);
    squared += e * e;
    absolute += std::abs(e);
  }
  with_all_kernels([&](const InPlaceKernels& kernels) {
    INFO("K = " << rank << ", adagrad " << step.adagrad << ", biases " << step.biases);
    FactorCase c(rank);
    const InPlaceSums sums = c.run(kernels, entries, step);
    const double limit = factor_bound(rank, static_cast<double>(count) / kItems);
    CHECK(excess(c.users.values(), users.rows.values, limit) <= 1);
    CHECK(excess(c.items.values(), items.rows.values, limit) <= 1);
    CHECK(excess(c.users.biases(), users.bias, limit) <= 1);
    CHECK(excess(c.items.biases(), items.bias, limit) <= 1);
    CHECK(excess(c.users.squares(), users.squares, 10 * limit) <= 1);
    CHECK(excess(c.items.squares(), items.squares, 10 * limit) <= 1);
    CHECK(c.users.tidy());
    CHECK(c.items.tidy());
    CHECK(sums.examples == count);
    CHECK(sums.squared_error == Approx(squared).epsilon(1e-4));
    CHECK(sums.absolute_error == Approx(absolute).epsilon(1e-4));
    CHECK(sums.loss == Approx(0.5 * squared).epsilon(1e-4));
  });
}

}  // namespace

TEST_CASE("factorization's steps are the reference's", "[factorize]") {
  for (bool adagrad : {false, true}) {
    for (bool biases : {false, true}) {
      for (Index rank : {1, 5, 16, 17, 32, 40, 64, 100}) compare_factorize(rank, options(adagrad, biases), kRatings);
      compare_factorize(8, options(adagrad, biases), 1);
      compare_factorize(8, options(adagrad, biases), 0);
    }
  }
}

TEST_CASE("the reference's step of a factorization goes down the gradient of its loss", "[factorize]") {
  // ½ e² + ½ λ_u (‖p‖² + b²) + ½ λ_i (‖q‖² + c²), of K = 3
  const FactorStep step{.rate = 1, .mean = 0.5F, .user_l2 = 0.25F, .item_l2 = 0.5F, .adagrad = false, .biases = true};
  const SparseEntry rating{0, 0, 1.5F};
  const auto loss = [&](const std::vector<double>& t) {
    const double e = 1.5 - (0.5 + t[3] + t[7] + t[0] * t[4] + t[1] * t[5] + t[2] * t[6]);
    return 0.5 * e * e + 0.125 * (t[0] * t[0] + t[1] * t[1] + t[2] * t[2] + t[3] * t[3]) +
           0.25 * (t[4] * t[4] + t[5] * t[5] + t[6] * t[6] + t[7] * t[7]);
  };
  const std::vector<double> theta{0.1, -0.2, 0.3, 0.05, 0.4, 0.2, -0.1, -0.3};
  const auto factors = [&](std::size_t at) {
    reference::Factors result;
    result.rows.values.assign(theta.data() + at, theta.data() + at + 3);
    result.rows.width = 3;
    result.bias.assign(1, theta[at + 3]);
    result.squares.assign(1, 1.0);
    return result;
  };
  reference::Factors user = factors(0), item = factors(4);
  reference::factorize(rating, step, user, item);
  std::vector<double> gradient;
  for (std::size_t k = 0; k < 3; ++k) gradient.push_back(theta[k] - user.rows.values[k]);
  gradient.push_back(theta[3] - user.bias[0]);
  for (std::size_t k = 0; k < 3; ++k) gradient.push_back(theta[4 + k] - item.rows.values[k]);
  gradient.push_back(theta[7] - item.bias[0]);
  CHECK(gradient_error(loss, theta, gradient) < 1e-7);
}

TEST_CASE("a rating's step is what one works out by hand", "[factorize]") {
  // K = 1, p = 2, q = 0.5, h = 4 and 16, mean 1, no biases: e = 3 − (1 + 1) = 1, η = 0.5 / 2 and 0.5 / 4
  with_all_kernels([](const InPlaceKernels& kernels) {
    Buffer user(48), item(48);
    const FactorRows users{{user.data(), 48, 16}, 1}, items{{item.data(), 48, 16}, 1};
    user.data()[0] = 2, item.data()[0] = 0.5F, *users.squares(0) = 4, *items.squares(0) = 16;
    const SparseEntry rating{0, 0, 3};
    const FactorStep step{.rate = 0.5F, .mean = 1, .user_l2 = 0.125F, .item_l2 = 0, .adagrad = true, .biases = false};
    const InPlaceSums sums = kernels.factorize({&rating, 1}, step, users, items);
    CHECK(user.data()[0] == 2.0625F);     // 2 + 0.25 (0.5 − 0.125 · 2)
    CHECK(item.data()[0] == 0.75F);       // 0.5 + 0.125 · 2
    CHECK(*users.squares(0) == 4.0625F);  // 4 + 0.25²
    CHECK(*items.squares(0) == 20);       // 16 + 2²
    CHECK(sums.squared_error == 1);
    CHECK(sums.loss == 0.5);
  });
}

TEST_CASE("rows with a λ of their own step as all rows do that have the same", "[factorize]") {
  with_all_kernels([](const InPlaceKernels& kernels) {
    for (const Index rank : {5, 32}) {
      FactorCase shared(rank), own(rank);
      FactorStep step = options(true, true);
      const auto entries = ratings(kRatings);
      shared.run(kernels, entries, step);
      for (Index i = 0; i < kUsers; ++i) *own.users.view().l2(i) = step.user_l2;
      for (Index i = 0; i < kItems; ++i) *own.items.view().l2(i) = step.item_l2;
      step = {.rate = step.rate, .mean = step.mean, .adagrad = true, .biases = true, .own_l2 = true};
      own.run(kernels, entries, step);
      CHECK(own.users.values() == shared.users.values());
      CHECK(own.items.values() == shared.items.values());
      CHECK(own.users.biases() == shared.users.biases());
      CHECK(*own.users.view().l2(1) == options(true, true).user_l2);
    }
  });
}

TEST_CASE("factorization: two calls are one, to the bit", "[factorize]") {
  const auto entries = ratings(700);
  const std::span<const SparseEntry> all = entries;
  with_all_kernels([&](const InPlaceKernels& kernels) {
    FactorCase one(32), two(32);
    const InPlaceSums whole = one.run(kernels, all, options(true, true));
    InPlaceSums first = two.run(kernels, all.first(333), options(true, true));
    const InPlaceSums second = two.run(kernels, all.subspan(333), options(true, true));
    CHECK(one.users.values() == two.users.values());
    CHECK(one.items.values() == two.items.values());
    CHECK(one.users.biases() == two.users.biases());
    CHECK(one.items.squares() == two.items.squares());
    CHECK(first.squared_error + second.squared_error == Approx(whole.squared_error).epsilon(1e-14));
    CHECK(first.absolute_error + second.absolute_error == Approx(whole.absolute_error).epsilon(1e-14));
  });
}

TEST_CASE("factorization: a model that diverged has a loss that shows it", "[factorize]") {
  const auto entries = ratings(100);
  with_all_kernels([&](const InPlaceKernels& kernels) {
    FactorCase c(20);
    c.users.view().factors.row(3)[4] = std::nanf("");
    CHECK(std::isnan(c.run(kernels, entries, options(true, true)).loss));
  });
}

}  // namespace unisono::kernels::cpu
