#pragma once

#include <cstdint>
#include <string>

#include "order/keyed_permutation.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// Shares of the rows that are not for training.
struct Shares {
  double validation = 0, test = 0;
  std::uint64_t seed = 1;  ///< of the choice
};

/// \param what is shared out: "rows" \param test_file where there is one, its rows are the test group
/// \throws ConfigError for shares that leave nothing for training, or exclude each other
void check_shares(const Shares& shares, const std::string& what, const std::string& test_file);

/// round(fraction · rows)
std::int64_t share_of(std::int64_t rows, double fraction);

/// Which group a row belongs to: a random choice of exactly so many rows.
class RowSplit {
 public:
  RowSplit(std::int64_t rows, const Shares& shares);
  std::int64_t size(Split split) const;
  Split of(std::int64_t row) const;

 private:
  KeyedPermutation order_;
  std::int64_t test_, validation_;
};

}  // namespace unisono::data
