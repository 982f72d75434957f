// Alternating least squares: a row's normal equations, of few and of many ratings, and the products of its losses.
#include "unisono/kernels/linear.hpp"

#include <memory>
#include <string>
#include <vector>

#include "harness.hpp"
#include "unisono/base/random.hpp"

namespace unisono::bench {
namespace {

constexpr Index kItems = 8000, kDrawn = 1 << 16;

/// Rows of a table, and the numbers of those that a user has rated, which the next user's follow.
struct Table {
  Index rank, width;
  Buffer values;
  std::vector<std::uint32_t> rated;

  explicit Table(Index rank_)
      : rank(rank_), width(round_up_to_line(rank)), values(kItems * (width + kLineFloats)), rated(kDrawn) {
    RandomStream random(1, Purpose::test);
    for (Index i = 0; i < kItems; ++i) {
      for (Index k = 0; k < rank; ++k) values.data()[i * (width + kLineFloats) + k] = random.uniform(-1, 1);
    }
    for (std::uint32_t& item : rated) item = static_cast<std::uint32_t>(random.below(kItems));
  }
  kernels::RowMatrix view() { return {values.data(), width + kLineFloats, width}; }
};

/// The sums' lower triangle, Cholesky's, and two triangular systems.
double flops_of(Index rank, Index ratings) {
  const auto k = static_cast<double>(rank), n = static_cast<double>(ratings);
  return n * k * (k + 1) + 4 * n * k + k * k * k / 3 + 2 * k * k;
}

void solve(benchmark::State& state, Index rank, Index ratings, bool bias) {
  const auto kernels = kernels::make_least_squares_kernels();
  Table table(rank);
  Buffer scratch(kernels::LeastSquaresKernels::scratch_floats(table.width)), factors(table.width);
  const std::vector<float> targets(static_cast<std::size_t>(ratings), 1.0F);
  float b = 0;
  std::size_t first = 0;
  for (auto _ : state) {
    first = (first + targets.size()) % (table.rated.size() - targets.size());
    kernels->solve(table.view(), rank,
                   {.rows = std::span(table.rated).subspan(first, targets.size()),
                    .targets = targets,
                    .l2 = 0.1F * static_cast<float>(ratings),
                    .bias = bias},
                   scratch.view(), {factors.view(), bias ? &b : nullptr});
    benchmark::DoNotOptimize(factors.data());
  }
  report(state, in_flops(flops_of(rank, ratings)), 1);
}

void products(benchmark::State& state, Index rank, Index ratings) {
  const auto kernels = kernels::make_least_squares_kernels();
  Table table(rank);
  std::vector<float> results(static_cast<std::size_t>(ratings));
  const View p = table.values.view().first(static_cast<std::size_t>(table.width));
  std::size_t first = 0;
  for (auto _ : state) {
    first = (first + results.size()) % (table.rated.size() - results.size());
    kernels->products(table.view(), std::span(table.rated).subspan(first, results.size()), p, results);
    benchmark::DoNotOptimize(results.data());
  }
  report(state, in_flops(2.0 * static_cast<double>(rank * ratings)), 1);
}

const bool registered = [] {
  for (const Index rank : {32, 64, 128, 256}) {
    for (const Index ratings : {3, 30, 135, 1000}) {
      const std::string name = std::to_string(rank) + "/" + std::to_string(ratings);
      benchmark::RegisterBenchmark(("least_squares/" + name).c_str(), solve, rank, ratings, false);
      if (ratings != 135) continue;
      benchmark::RegisterBenchmark(("least_squares/" + name + "/bias").c_str(), solve, rank, ratings, true);
      benchmark::RegisterBenchmark(("least_squares_products/" + name).c_str(), products, rank, ratings);
    }
  }
  return true;
}();

}  // namespace
}  // namespace unisono::bench
