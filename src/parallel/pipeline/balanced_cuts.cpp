// The linear partition problem: costs c_1 … c_n in order, cut into k runs.
//     worst[j][i] = min_h max(worst[j−1][h], c_{h+1} + … + c_i)           the least maximum of j runs over the first i
//     bound[j][i] = min_h bound[j−1][h] + b_h,   c_{h+1} + … + c_i ≤ worst[k][n]   then the least sum of boundaries
#include <algorithm>
#include <cassert>
#include <limits>

#include "unisono/parallel/stages.hpp"

namespace unisono::parallel {
namespace {

constexpr double kNoCut = std::numeric_limits<double>::infinity();

/// costs of the segments [from, to)
class Sums {
 public:
  explicit Sums(std::span<const double> costs) {
    for (const double cost : costs) before_.push_back(before_.back() + cost);
  }
  double operator()(std::size_t from, std::size_t to) const { return before_[to] - before_[from]; }

 private:
  std::vector<double> before_ = {0};
};

/// worst[k][n] of the formula above.
double least_maximum(const Sums& cost, std::size_t n, std::size_t k) {
  std::vector<double> worst(n + 1, kNoCut);  // for j runs
  worst[0] = 0;
  for (std::size_t j = 1; j <= k; ++j) {
    for (std::size_t i = n + 1; i-- > 0;) {  // from the end: worst[h < i] are still those of j − 1 runs
      worst[i] = kNoCut;
      for (std::size_t h = 0; h < i; ++h) worst[i] = std::min(worst[i], std::max(worst[h], cost(h, i)));
    }
  }
  return worst[n];
}

}  // namespace

std::vector<int> balanced_cuts(std::span<const double> costs, std::span<const Index> boundaries, int pieces) {
  const std::size_t n = costs.size(), k = static_cast<std::size_t>(pieces);
  assert(k >= 1 && k <= n && boundaries.size() + 1 == n);
  const Sums cost(costs);
  const double most = least_maximum(cost, n, k);
  std::vector<std::vector<double>> bound(k + 1, std::vector<double>(n + 1, kNoCut));
  std::vector<std::vector<std::size_t>> from(k + 1, std::vector<std::size_t>(n + 1, 0));
  bound[0][0] = 0;
  for (std::size_t j = 1; j <= k; ++j) {
    for (std::size_t i = j; i <= n; ++i) {
      for (std::size_t h = j - 1; h < i; ++h) {
        const double sum = bound[j - 1][h] + (h == 0 ? 0 : static_cast<double>(boundaries[h - 1]));
        if (cost(h, i) > most || sum > bound[j][i]) continue;  // of equals the last
        bound[j][i] = sum;
        from[j][i] = h;
      }
    }
  }
  std::vector<int> cuts(k + 1, static_cast<int>(n));
  for (std::size_t j = k; j-- > 0;) cuts[j] = static_cast<int>(from[j + 1][static_cast<std::size_t>(cuts[j + 1])]);
  return cuts;
}

}  // namespace unisono::parallel
