#pragma once

#include <functional>

#include "unisono/base/clock.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/parallel/replica.hpp"

namespace unisono::strategies {

/// The ratings of a block.
inline data::SparseEntries ratings_of(data::SparseEntries entries, data::ExampleRange block) {
  return entries.subspan(static_cast<std::size_t>(block.first), static_cast<std::size_t>(block.size()));
}

/// The grid of ratings (data/sparse/split.hpp) sharded over a ring of ranks: each rank keeps consecutive rows of
/// the grid with their users' part of θ, while the columns, with their items' part of θ, travel from rank to rank. On
/// diagonal w, row i trains with column i + w (mod side). So after each diagonal a rank sends the column of its first
/// row to rank − 1 and receives one for its last row from rank + 1. Diagonals are numbered through the whole run; after
/// `side` of them every column is back at its first place.
class ItemRing final : public parallel::RowHolding {
 public:
  /// \param model must be bipartite \throws ConfigError where there are more ranks than rows
  ItemRing(const models::Model& model, const data::DatasetInfo& data, comm::Communicator& communicator);

  const ParameterLayout& layout() const override { return layout_; }
  Index size() const override;
  std::vector<Shard> shards() const override;
  std::vector<BlockRange> ranges() const override;
  SquaresReducer* squares() const override { return &squares_; }
  std::uint64_t hash() const override { return map().hash(); }
  void begin(std::int64_t step) override { diagonal_ = step; }
  void evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) override;

  /// Called for the block that a row of this rank (0 … rows() − 1) has on a diagonal; on any thread.
  using Visit = std::function<void(Index row, std::int64_t diagonal, const models::TableParts& parts)>;
  /// Visits this rank's blocks of `count` diagonals, beginning with diagonal(). Blocks that share a row or a column are
  /// visited in the order of the diagonals; all others may be visited concurrently, and there is no barrier between
  /// diagonals. The columns are sent meanwhile. Collective.
  /// \return seconds that the calling thread waited for columns
  double pass(std::int64_t count, MutableView parameters, ThreadTeam& team, const Visit& visit,
              const Clock& clock = steady_clock());

  Index rows() const { return last_row_ - first_row_; }
  const models::Bipartite& model() const { return model_; }
  std::int64_t diagonal() const { return diagonal_; }  ///< with which the next pass begins
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  class Pass;

  /// Which rank holds which rows now.
  ShardMap map() const;
  bool is_alone() const { return communicator_.size() == 1; }
  /// Slots for columns: one for each row, one that is being sent, one that is being received.
  Index places() const { return rows() + (is_alone() ? 0 : 2); }
  /// The slot of the column with which row `row` (of the grid) trains on a diagonal: floats from the start of the
  /// memory.
  Index place_of(std::int64_t row, std::int64_t diagonal) const;
  Index column_of(std::int64_t row, std::int64_t diagonal) const { return (row + diagonal) % items_.parts; }
  Index column_floats(Index column) const { return items_.size(column) * item_space_.stride; }
  /// Calls see(space, series of its rows, the grid's row where they are now) for all that a rank holds now.
  template <typename See>
  void for_each_part(int rank, See see) const;
  /// Calls see(space, series of its rows, their offset in this rank's memory) for all that this rank holds now.
  template <typename See>
  void for_each_own_part(See see) const;
  /// Calls see(number of the block, offset of its floats in a row) for the blocks of the layout whose rows make up a
  /// space.
  template <typename See>
  void for_each_block(std::size_t space, See see) const;

  const models::Bipartite& model_;
  const ParameterLayout& layout_;
  models::RowSpace user_space_, item_space_;
  data::CyclicDistribution users_, items_;
  comm::Communicator& communicator_;
  mutable comm::CommunicatorSquares squares_;
  Index first_row_, last_row_;  ///< of the grid: this rank's
  Index user_rows_ = 0;
  std::int64_t diagonal_ = 0, sent_bytes_ = 0;
};

}  // namespace unisono::strategies
