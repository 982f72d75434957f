#include "cpu/instruction_set.hpp"
#include "in_place_fixture.hpp"
#include "reference_least_squares.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kRows = 90;

template <typename Check>
void with_all_least_squares(const Check& check) {
  for (InstructionSet set : available_instruction_sets()) {
    const auto kernels = least_squares_kernels_for(set);
    INFO(kernels->name());
    check(*kernels);
  }
}

/// A row's problem with n random terms.
struct Problem {
  TestMatrix table;
  std::vector<std::uint32_t> rows;
  Floats targets, weights;
  Buffer gram;
  float l2;

  Problem(Index rank, Index n, float l2_)
      : table(kRows, rank, 3),
        targets(random_floats(n, 4, -2, 2)),
        weights(random_floats(n, 5, 0, 3)),
        gram(LeastSquaresKernels::gram_floats(table.view().width)),
        l2(l2_) {
    RandomStream random(6, Purpose::test);
    for (Index i = 0; i < n; ++i) rows.push_back(static_cast<std::uint32_t>(random.below(kRows)));
  }

  std::vector<double> row(std::size_t i) {
    const auto* const first = table.row(static_cast<Index>(i));
    return {first, first + table.used()};
  }
  reference::Equations equations(bool weighted, bool bias) {
    reference::Equations result(static_cast<std::size_t>(table.used()) + (bias ? 1 : 0));
    for (std::size_t i = 0; weighted && i < static_cast<std::size_t>(kRows); ++i) result.add(row(i), 1, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto z = row(rows[i]);
      if (bias) z.push_back(1);
      result.add(z, weighted ? static_cast<double>(weights[i]) : 1.0, static_cast<double>(targets[i]));
    }
    result.add_to_diagonal(static_cast<double>(l2));
    return result;
  }
  std::vector<double> solve(const LeastSquaresKernels& kernels, bool weighted, bool bias) {
    const RowMatrix matrix = table.view();
    std::fill_n(gram.data(), gram.size(), 0.0F);
    kernels.add_gram(matrix, table.used(), 0, kRows, gram.view());
    Buffer scratch(LeastSquaresKernels::scratch_floats(matrix.width)), factors(matrix.width);
    std::fill_n(scratch.data(), scratch.size(), 777.0F);  // nothing of it is read before it is written
    float b = 0;
    kernels.solve(matrix, table.used(),
                  {.rows = rows,
                   .targets = targets,
                   .weights = weighted ? View(weights) : View(),
                   .gram = weighted ? gram.view() : View(),
                   .l2 = l2,
                   .bias = bias},
                  scratch.view(), {factors.view(), bias ? &b : nullptr});
    for (Index k = table.used(); k < matrix.width; ++k) CHECK(factors.data()[k] == 0);
    std::vector<double> result(factors.data(), factors.data() + table.used());
    if (bias) result.push_back(static_cast<double>(b));
    return result;
  }
};

void compare_least_squares(Index rank, Index n, bool weighted, bool bias) {
  CAPTURE(rank, n, weighted, bias);
  Problem problem(rank, n, 0.1F * static_cast<float>(n));
  const auto equations = problem.equations(weighted, bias);
  const auto expected = equations.solution();
  // Cholesky's backward error is some 3K roundings of ‖A‖, and A's own n; A's condition is at most trace / λ.
  const double condition = equations.trace() / static_cast<double>(problem.l2);
  const double bound = condition * static_cast<double>(n + 3 * rank + kRows) * kRoundoff;
  with_all_least_squares([&](const LeastSquaresKernels& kernels) {
    const auto solution = problem.solve(kernels, weighted, bias);
    CHECK(reference::distance(solution, expected) <= bound * reference::norm(expected));
    CHECK(problem.solve(kernels, weighted, bias) == solution);
    CHECK(problem.table.tidy());
  });
}

}  // namespace

TEST_CASE("a row's normal equations are solved as in double", "[least_squares]") {
  for (const Index rank : {1, 5, 16, 17, 32, 33, 40, 64, 100}) {
    for (const Index n : {1, 3, 40, 129, 300}) {
      compare_least_squares(rank, n, false, false);
      compare_least_squares(rank, n, false, true);
      compare_least_squares(rank, n, true, false);
    }
  }
  compare_least_squares(256, 70, false, true);
  compare_least_squares(200, 20, true, false);
}

TEST_CASE("a row that many terms determine badly is still finite", "[least_squares]") {
  Problem problem(8, 64, 1e-9F);
  std::fill(problem.rows.begin(), problem.rows.end(), 3U);  // one direction of eight
  with_all_least_squares([&](const LeastSquaresKernels& kernels) {
    for (const double value : problem.solve(kernels, false, false)) CHECK(std::isfinite(value));
  });
}

TEST_CASE("Gram matrices add up ranges of rows", "[least_squares]") {
  for (const Index rank : {3, 16, 33, 80}) {
    CAPTURE(rank);
    Problem problem(rank, 1, 1);
    reference::Equations expected(static_cast<std::size_t>(rank));
    for (std::size_t i = 7; i < static_cast<std::size_t>(kRows); ++i) expected.add(problem.row(i), 1, 0);
    with_all_least_squares([&](const LeastSquaresKernels& kernels) {
      const RowMatrix matrix = problem.table.view();
      std::fill_n(problem.gram.data(), problem.gram.size(), 0.0F);
      kernels.add_gram(matrix, rank, 7, 50, problem.gram.view());
      kernels.add_gram(matrix, rank, 50, 50, problem.gram.view());
      kernels.add_gram(matrix, rank, 50, kRows, problem.gram.view());
      for (Index column = 0; column < rank; ++column) {
        for (Index row = column; row < rank; ++row) {
          const auto value = static_cast<double>(problem.gram.data()[column * (matrix.width + kLineFloats) + row]);
          // Sums of 83 products below 1/4.
          CHECK(std::abs(value - expected.matrix[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)]) <=
                83 * 83 / 4.0 * kRoundoff);
        }
      }
    });
  }
}

TEST_CASE("products of a row with others", "[least_squares]") {
  for (const Index n : {0, 1, 15, 16, 17, 40}) {
    Problem problem(37, n, 1);
    const auto p = problem.row(2);
    with_all_least_squares([&](const LeastSquaresKernels& kernels) {
      const RowMatrix matrix = problem.table.view();
      Floats products(static_cast<std::size_t>(n));
      kernels.products(matrix, problem.rows, {matrix.row(2), static_cast<std::size_t>(matrix.width)}, products);
      for (std::size_t i = 0; i < products.size(); ++i) {
        auto other = problem.row(problem.rows[i]), own = p;
        const double expected = reference::dot(own, other);
        CHECK(std::abs(static_cast<double>(products[i]) - expected) <= 37 * 37 / 4.0 * kRoundoff);
      }
    });
  }
}

}  // namespace unisono::kernels::cpu
