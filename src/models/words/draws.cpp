#include "words/draws.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace unisono::models {

AliasTable::AliasTable(std::span<const double> weights) : slots_(weights.size()) {
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  std::vector<double> share(weights.size());  // of the slots' mean
  std::vector<std::size_t> small, large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    share[i] = weights[i] / mean;
    (share[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const std::size_t from = large.back(), to = small.back();
    small.pop_back();
    slots_[to] = {.own = static_cast<std::uint32_t>(share[to] * 0x1p32), .other = static_cast<std::int32_t>(from)};
    share[from] -= 1 - share[to];
    if (share[from] < 1) {
      large.pop_back();
      small.push_back(from);
    }
  }
  for (const auto& rest : {small, large}) {
    for (const std::size_t i : rest) {
      slots_[i] = {.own = std::numeric_limits<std::uint32_t>::max(), .other = static_cast<std::int32_t>(i)};
    }
  }
}

}  // namespace unisono::models
