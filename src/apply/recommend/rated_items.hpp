#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "unisono/data/dataset.hpp"

namespace unisono::apply {

/// Which items each user has rated in one group of a set of ratings.
class RatedItems {
 public:
  /// \param least only ratings of at least this
  RatedItems(data::Dataset& ratings, Index users, data::Split split = data::Split::train,
             double least = -std::numeric_limits<double>::infinity());

  /// The items that a user has rated, ascending.
  std::span<const std::uint32_t> of(Index user) const {
    const auto first = begins_[static_cast<std::size_t>(user)], last = begins_[static_cast<std::size_t>(user) + 1];
    return std::span(items_).subspan(first, last - first);
  }

 private:
  std::vector<std::size_t> begins_;  ///< [users + 1]
  std::vector<std::uint32_t> items_;
};

}  // namespace unisono::apply
