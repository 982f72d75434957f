#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/data/dataset.hpp"

namespace unisono {

/// Which items each user has rated in a set's training group.
class RatedItems {
 public:
  RatedItems(Dataset& ratings, Index users);

  /// Ascending.
  std::span<const std::uint32_t> of(Index user) const {
    const auto first = begins_[static_cast<std::size_t>(user)], last = begins_[static_cast<std::size_t>(user) + 1];
    return std::span(items_).subspan(first, last - first);
  }

 private:
  std::vector<std::size_t> begins_;  ///< [users + 1]
  std::vector<std::uint32_t> items_;
};

}  // namespace unisono
