#include "cpu/kernels_for.hpp"

#include <cassert>

namespace unisono::kernels {
namespace cpu {
namespace {

FactorTable factors_of(const RowMatrix& table, Index rank) {
  return {.values = table.values, .stride = table.stride, .width = table.width, .rank = rank};
}

class CpuLeastSquares final : public LeastSquaresKernels {
 public:
  explicit CpuLeastSquares(InstructionSet set) : loops_(loops_for(set)) {}
  const char* name() const override { return loops_.name; }

  void solve(const RowMatrix& table, Index rank, const LeastSquaresTerms& terms, MutableView scratch,
             const LeastSquaresSolution& solution) const override {
    assert(terms.targets.size() == terms.rows.size() && terms.l2 > 0);
    assert(!terms.bias || (terms.weights.empty() && terms.gram.empty() && solution.bias != nullptr));
    assert(std::ssize(scratch) >= scratch_floats(table.width) && std::ssize(solution.factors) == table.width);
    const NormalEquations equations{.rows = terms.rows.data(),
                                    .targets = terms.targets.data(),
                                    .weights = terms.weights.empty() ? nullptr : terms.weights.data(),
                                    .count = std::ssize(terms.rows),
                                    .gram = terms.gram.empty() ? nullptr : terms.gram.data(),
                                    .l2 = terms.l2,
                                    .bias = terms.bias};
    loops_.least_squares.solve(factors_of(table, rank), equations, scratch.data(), solution.factors.data(),
                               solution.bias);
  }

  void add_gram(const RowMatrix& table, Index rank, Index first, Index last, MutableView gram) const override {
    assert(std::ssize(gram) >= gram_floats(table.width));
    loops_.least_squares.add_gram(factors_of(table, rank), first, last, gram.data());
  }

  void products(const RowMatrix& table, std::span<const std::uint32_t> rows, View p,
                MutableView products) const override {
    assert(std::ssize(p) == table.width && products.size() == rows.size());
    loops_.least_squares.products(factors_of(table, table.width), rows.data(), std::ssize(rows), p.data(),
                                  products.data());
  }

 private:
  Loops loops_;
};

}  // namespace

std::unique_ptr<LeastSquaresKernels> least_squares_kernels_for(InstructionSet set) {
  return std::make_unique<CpuLeastSquares>(set);
}

}  // namespace cpu

Index LeastSquaresKernels::scratch_floats(Index width) { return cpu::least_squares_scratch(width); }

std::unique_ptr<LeastSquaresKernels> make_least_squares_kernels() {
  return cpu::least_squares_kernels_for(cpu::chosen_instruction_set());
}

}  // namespace unisono::kernels
