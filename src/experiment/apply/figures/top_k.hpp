#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace unisono::experiment {

/// How good a list of recommendations is, with items that are relevant or not.
struct TopFigures {
  double precision = 0;  ///< share of the k places that hold a relevant item
  double recall = 0;     ///< share of the relevant items that are in these places
  double ndcg = 0;       ///< Σ 1/log2(1 + place) over relevant items there, of what it could be at most
};

/// Of one user. \param recommended best first, k at most; −1: no item was left for this place
/// \param relevant ascending, at least one \param k places, recommended or not
TopFigures top_figures(std::span<const std::int32_t> recommended, std::span<const std::uint32_t> relevant,
                       std::size_t k);

}  // namespace unisono::experiment
