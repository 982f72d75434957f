#include "vectors/nearest.hpp"

#include <algorithm>
#include <cmath>

#include "vectors/tables.hpp"

namespace unisono {
namespace {

double product(View a, View b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return sum;
}

bool is_nearer(const Neighbor& a, const Neighbor& b) {
  return a.cosine != b.cosine ? a.cosine > b.cosine : a.row < b.row;
}

/// Keeps the nearest `top`: a heap with the farthest of them in front.
void offer(const Neighbor& candidate, std::size_t top, std::vector<Neighbor>& kept) {
  if (kept.size() == top && !is_nearer(candidate, kept.front())) return;
  if (kept.size() == top) {
    std::pop_heap(kept.begin(), kept.end(), is_nearer);
    kept.pop_back();
  }
  kept.push_back(candidate);
  std::push_heap(kept.begin(), kept.end(), is_nearer);
}

}  // namespace

double cosine(View a, View b) {
  const double squares = product(a, a) * product(b, b);
  return squares == 0 ? 0 : product(a, b) / std::sqrt(squares);
}

std::vector<std::vector<Neighbor>> nearest(const VectorTable& table, View parameters, const std::vector<Index>& asked,
                                           std::size_t top) {
  const auto width = static_cast<std::size_t>(table.width);
  std::vector<std::vector<float>> queries(asked.size(), std::vector<float>(width));
  for (std::size_t i = 0; i < asked.size(); ++i) read_row(table, parameters, asked[i], queries[i]);

  std::vector<std::vector<Neighbor>> found(asked.size());
  std::vector<float> vector(width);
  for (Index row = 0; row < table.rows; ++row) {
    read_row(table, parameters, row, vector);
    if (product(vector, vector) == 0) continue;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (row != asked[i]) offer({.row = row, .cosine = cosine(queries[i], vector)}, top, found[i]);
    }
  }
  for (auto& list : found) std::sort_heap(list.begin(), list.end(), is_nearer);
  return found;
}

}  // namespace unisono
