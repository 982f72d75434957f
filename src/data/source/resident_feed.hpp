#pragma once

#include <optional>

#include "order/keyed_permutation.hpp"
#include "order/row_runs.hpp"
#include "source/feed.hpp"

namespace unisono::data {

/// Fetches examples from memory, in a random order of this rank's share: a function of (seed, epoch, number of the
/// share).
class ResidentFeed final : public Feed {
 public:
  /// \param share positions that the order permutes
  /// \param number of the share; 0 for an order that all ranks share
  ResidentFeed(RowBlock rows, const RowRuns& positions, Range share, bool shuffle, std::uint64_t seed,
               std::uint32_t number);

  void gather(const MicroBatch& batch, std::vector<RawExample>& examples) override;
  void seek(const DataCursor&) override {}

 private:
  RowBlock rows_;
  const RowRuns& positions_;
  Range share_;
  bool shuffle_;
  std::uint64_t seed_;
  std::uint32_t number_;
  std::int64_t epoch_ = -1;
  KeyedPermutation order_;  ///< of epoch_
};

}  // namespace unisono::data
