// Mixing matrices of graphs that look the same from every rank: rank r receives from r − s for each shift s of a set S.
//     W_rs = 1 / (1 + |S|)   for r itself and its |S| neighbours, else 0
//   These are the Metropolis-Hastings weights 1 / (1 + max(d_r, d_s)), since all degrees are equal (Xiao & Boyd, 2004).
//   Each shift is a permutation of the ranks, so W, a mean of permutations, is doubly stochastic.
//     ring         S = {±1}
//     grid         S = {±1 row, ±1 column}, on R × C ranks, R the largest divisor of P up to √P; a prime P gives a ring
//     exponential  S = {2^k} in round k = 0 … ⌈log₂ P⌉ − 1 (Assran et al., ICML 2019; Ying et al., NeurIPS 2021)
//     complete     S = all others
//   Shifts commute, so the Fourier modes of the grid are eigenvectors of all these matrices: with ω = 2π (a/R, b/C),
//     λ(a, b) = (1 + Σ_{s ∈ S} e^{−i ω·s}) / (1 + |S|),   σ₂ of a product = max over (a, b) ≠ 0 of Π |λ(a, b)|
//   For P = 2^k the exponential graph's product is the exact mean: 1 + e^{−iωs} = 0 for one of the rounds.
#include "gossip/mixing.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace unisono::strategies {
namespace {

/// The largest divisor of n that is at most √n.
int rows_of_grid(int n) {
  int rows = 1;
  for (int i = 2; i <= n / i; ++i) rows = n % i == 0 ? i : rows;
  return rows;
}

}  // namespace

Mixing::Mixing(Topology topology, int ranks) : columns_(ranks), rounds_(1) {
  switch (topology) {
    case Topology::ring:
      for (const int step : {-1, 1}) add(rounds_[0], 0, step);
      return;
    case Topology::grid:
      rows_ = rows_of_grid(ranks);
      columns_ = ranks / rows_;
      for (const int step : {-1, 1}) add(rounds_[0], step, 0);
      for (const int step : {-1, 1}) add(rounds_[0], 0, step);
      return;
    case Topology::exponential:
      for (int distance = 1, round = 0; distance < ranks; distance *= 2, ++round) {
        rounds_.resize(static_cast<std::size_t>(round) + 1);
        add(rounds_.back(), 0, distance);
      }
      return;
    case Topology::complete:
      for (int distance = 1; distance < ranks; ++distance) add(rounds_[0], 0, distance);
      return;
  }
}

/// Adds a shift that leads to another rank, once.
void Mixing::add(Round& round, int rows, int columns) const {
  const Shift shift{(rows + rows_) % rows_, (columns + columns_) % columns_};
  if (shift != Shift{} && std::ranges::find(round, shift) == round.end()) round.push_back(shift);
}

int Mixing::moved(int rank, const Shift& shift, int sign) const {
  const int row = (rank / columns_ + sign * shift.rows + rows_) % rows_;
  const int column = (rank % columns_ + sign * shift.columns + columns_) % columns_;
  return row * columns_ + column;
}

MixingRow Mixing::row(int round, int rank) const {
  const Round& shifts = rounds_[static_cast<std::size_t>(round)];
  MixingRow row{.from = {}, .to = {}, .weight = 1.0 / static_cast<double>(1 + shifts.size())};
  for (const Shift& shift : shifts) {
    row.from.push_back(moved(rank, shift, -1));
    row.to.push_back(moved(rank, shift, 1));
  }
  return row;
}

double Mixing::second_singular_value() const {
  double largest = 0;
  for (int mode = 1; mode < ranks(); ++mode) {
    const double along_rows = 2 * std::numbers::pi * (mode / columns_) / rows_;
    const double along_columns = 2 * std::numbers::pi * (mode % columns_) / columns_;
    double product = 1;
    for (const Round& shifts : rounds_) {
      std::complex<double> sum = 1;
      for (const Shift& shift : shifts)
        sum += std::polar(1.0, -along_rows * shift.rows - along_columns * shift.columns);
      product *= std::abs(sum) / static_cast<double>(1 + shifts.size());
    }
    largest = std::max(largest, product);
  }
  return largest;
}

}  // namespace unisono::strategies
