#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace unisono::apply {

/// How good a list of k recommendations is, given the relevant items.
struct TopFigures {
  double precision = 0;  ///< share of the k places with a relevant item
  double recall = 0;     ///< share of the relevant items that are in the list
  double ndcg = 0;       ///< Σ 1/log2(1 + place) over relevant items in the list, divided by its maximum
};

/// The figures of one user. \param recommended best first, at most k; −1: no item was left for this place
/// \param relevant ascending, at least one \param k length of the list, even if fewer were recommended
TopFigures top_figures(std::span<const std::int32_t> recommended, std::span<const std::uint32_t> relevant,
                       std::size_t k);

}  // namespace unisono::apply
