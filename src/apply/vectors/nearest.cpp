#include "vectors/nearest.hpp"

#include <cmath>

#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

double product(View a, View b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return sum;
}

}  // namespace

double cosine(View a, View b) {
  const double squares = product(a, a) * product(b, b);
  return squares == 0 ? 0 : product(a, b) / std::sqrt(squares);
}

std::vector<std::vector<Scored>> nearest(const models::VectorTable& table, View parameters,
                                         const std::vector<Index>& asked, std::size_t top) {
  const auto width = static_cast<std::size_t>(table.width);
  std::vector<std::vector<float>> queries(asked.size(), std::vector<float>(width));
  for (std::size_t i = 0; i < asked.size(); ++i) read_row(table, parameters, asked[i], queries[i]);

  std::vector<Best> best(asked.size(), Best(top));
  std::vector<float> vector(width);
  for (Index row = 0; row < table.rows; ++row) {
    read_row(table, parameters, row, vector);
    if (product(vector, vector) == 0) continue;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (row != asked[i]) best[i].offer({.row = row, .score = cosine(queries[i], vector)});
    }
  }
  std::vector<std::vector<Scored>> found;
  for (Best& one : best) found.push_back(one.take());
  return found;
}

}  // namespace unisono::apply
