#include "figures/top_k.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::apply {
namespace {

/// What a relevant item at a place adds, 0 being the first. Järvelin & Kekäläinen, TOIS 20(4), 2002.
double gain(std::size_t place) { return 1 / std::log2(static_cast<double>(place) + 2); }

}  // namespace

TopFigures top_figures(std::span<const std::int32_t> recommended, std::span<const std::uint32_t> relevant,
                       std::size_t k) {
  double hits = 0, found = 0, most = 0;
  for (std::size_t place = 0; place < std::min(k, recommended.size()); ++place) {
    const std::int32_t item = recommended[place];
    if (item < 0 || !std::binary_search(relevant.begin(), relevant.end(), static_cast<std::uint32_t>(item))) continue;
    ++hits;
    found += gain(place);
  }
  for (std::size_t place = 0; place < std::min(k, relevant.size()); ++place) most += gain(place);
  return {.precision = hits / static_cast<double>(k),
          .recall = hits / static_cast<double>(relevant.size()),
          .ndcg = found / most};
}

}  // namespace unisono::apply
