// Importance by permutation. Breiman, "Random forests", Machine Learning 45, 2001:
//   Each tree is grown on n trials drawn with replacement, without pruning; a node looks at a third of the settings,
//   and takes the split x ≤ t that leaves the least variance in its two parts. The trials that a tree has not drawn
//   test it. Setting j's importance is
//       mean over trees of  (error with column j shuffled among these trials − error) / variance
// Ranks in place of values: a few trials that nearly diverged would otherwise decide everything. A setting that a trial
// does not have lies below all values that it could have.
#include "importance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "unisono/base/random.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kTrees = 64, kSmallestLeaf = 2, kMostTrials = 1000;

using Column = std::vector<double>;
using Rows = std::vector<std::size_t>;

/// Ranks from 0 to 1; equal values share their mean rank.
Column ranks_of(const Column& values) {
  Rows order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  Column ranks(values.size());
  const auto last = static_cast<double>(std::max<std::size_t>(2, values.size()) - 1);
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2 / last;
  }
  return ranks;
}

double mean_of_rows(const Column& values, std::span<const std::size_t> rows) {
  double sum = 0;
  for (const std::size_t row : rows) sum += values[row];
  return sum / static_cast<double>(rows.size());
}

struct Node {
  std::size_t column = 0;
  double threshold = 0;
  std::size_t left = 0, right = 0;  ///< nodes; 0: this is a leaf, …
  double mean = 0;                  ///< … which predicts this
};

class Tree {
 public:
  Tree(const std::vector<Column>& columns, const Column& values, Rows rows, RandomStream random)
      : columns_(columns), values_(values), random_(random) {
    grow(rows);
  }

  /// \param shuffled a column whose values are taken from the row `other`
  double predict(std::size_t row, std::size_t shuffled, std::size_t other) const {
    std::size_t at = 0;
    while (nodes_[at].left != 0) {
      const Node& node = nodes_[at];
      const double x = columns_[node.column][node.column == shuffled ? other : row];
      at = x <= node.threshold ? node.left : node.right;
    }
    return nodes_[at].mean;
  }

 private:
  struct Split {
    std::size_t column = 0;
    double threshold = 0;
    double gain = 1e-12;  ///< of Σ sum² / count; rounding alone is none
    bool found = false;
  };

  std::size_t grow(std::span<std::size_t> rows) {
    const std::size_t node = nodes_.size();
    nodes_.push_back({.mean = mean_of_rows(values_, rows)});
    const Split split = best_split(rows);
    if (!split.found) return node;
    const auto& column = columns_[split.column];
    const auto middle =
        std::stable_partition(rows.begin(), rows.end(), [&](auto row) { return column[row] <= split.threshold; });
    const auto count = static_cast<std::size_t>(middle - rows.begin());
    const std::size_t left = grow(rows.first(count)), right = grow(rows.subspan(count));
    nodes_[node] = {.column = split.column, .threshold = split.threshold, .left = left, .right = right};
    return node;
  }

  Split best_split(std::span<std::size_t> rows) {
    Split best;
    if (rows.size() < 2 * kSmallestLeaf) return best;
    Rows candidates(columns_.size());
    std::iota(candidates.begin(), candidates.end(), 0);
    for (std::size_t i = 0; i < (columns_.size() + 2) / 3; ++i) {
      std::swap(candidates[i], candidates[i + random_.below(candidates.size() - i)]);
      look_at(candidates[i], rows, best);
    }
    return best;
  }

  void look_at(std::size_t column, std::span<const std::size_t> rows, Split& best) const {
    const Column& x = columns_[column];
    Rows sorted(rows.begin(), rows.end());
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto a, auto b) { return x[a] < x[b]; });
    const auto n = static_cast<double>(rows.size());
    const double sum = mean_of_rows(values_, rows) * n;
    double left = 0;
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      left += values_[sorted[i - 1]];
      if (x[sorted[i - 1]] == x[sorted[i]] || i < kSmallestLeaf || sorted.size() - i < kSmallestLeaf) continue;
      const auto count = static_cast<double>(i);
      const double gain = left * left / count + (sum - left) * (sum - left) / (n - count) - sum * sum / n;
      if (gain > best.gain) best = {column, x[sorted[i - 1]], gain, true};
    }
  }

  const std::vector<Column>& columns_;
  const Column& values_;
  RandomStream random_;
  std::vector<Node> nodes_;
};

/// n rows drawn with replacement, and those that were not drawn.
struct Bootstrap {
  Rows drawn, left_out;
};
Bootstrap bootstrap(std::size_t n, RandomStream random) {
  Bootstrap sample;
  std::vector<bool> is_drawn(n);
  for (std::size_t i = 0; i < n; ++i) {
    sample.drawn.push_back(random.below(n));
    is_drawn[sample.drawn.back()] = true;
  }
  for (std::size_t row = 0; row < n; ++row) {
    if (!is_drawn[row]) sample.left_out.push_back(row);
  }
  return sample;
}

double square(double x) { return x * x; }

/// Every trial, or 1,000 of them.
std::vector<Column> spread(const std::vector<Column>& columns) {
  std::vector<Column> fewer;
  for (const Column& column : columns) {
    const std::size_t kept = std::min(column.size(), kMostTrials);
    Column& one = fewer.emplace_back();
    for (std::size_t i = 0; i < kept; ++i) one.push_back(column[i * column.size() / kept]);
  }
  return fewer;
}

}  // namespace

Importance importance_of(const std::vector<std::vector<double>>& settings, const std::vector<double>& values) {
  std::vector<Column> columns = spread(settings);
  for (Column& column : columns) {
    for (double& x : column) x = std::isnan(x) ? -std::numeric_limits<double>::infinity() : x;
  }
  const Column ranks = ranks_of(spread({values}).front());
  const std::size_t n = ranks.size(), none = columns.size();
  Rows all(n);
  std::iota(all.begin(), all.end(), 0);
  const double mean = mean_of_rows(ranks, all);
  double variance = 0;
  for (const double rank : ranks) variance += square(rank - mean) / static_cast<double>(n);
  Importance importance{.settings = std::vector<double>(columns.size())};
  if (variance == 0) return importance;

  std::vector<double> sums(n), counts(n);  // of the predictions of trees that have not seen a trial
  for (std::uint32_t t = 0; t < kTrees; ++t) {
    const auto [drawn, left_out] = bootstrap(n, RandomStream(0, Purpose::search, t, 100));
    const Tree tree(columns, ranks, drawn, RandomStream(0, Purpose::search, t, 101));
    if (left_out.empty()) continue;
    const auto share = 1 / (static_cast<double>(left_out.size()) * kTrees * variance);
    for (const std::size_t row : left_out) {
      sums[row] += tree.predict(row, none, 0);
      ++counts[row];
    }
    for (std::size_t column = 0; column < columns.size(); ++column) {
      Rows others = left_out;
      shuffle(std::span(others), RandomStream(0, Purpose::search, t, 200 + static_cast<std::uint32_t>(column)));
      for (std::size_t i = 0; i < left_out.size(); ++i) {
        const std::size_t row = left_out[i];
        const double error = square(tree.predict(row, none, 0) - ranks[row]);
        importance.settings[column] += share * (square(tree.predict(row, column, others[i]) - ranks[row]) - error);
      }
    }
  }
  double error = 0, seen = 0;
  for (std::size_t row = 0; row < n; ++row) {
    if (counts[row] == 0) continue;
    error += square(sums[row] / counts[row] - ranks[row]);
    ++seen;
  }
  importance.explained = 1 - error / seen / variance;
  return importance;
}

}  // namespace unisono::report
