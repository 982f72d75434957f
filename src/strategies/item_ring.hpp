#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <optional>

#include "unisono/base/clock.hpp"
#include "unisono/base/thread_team.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/grid.hpp"
#include "unisono/strategies/division.hpp"

namespace unisono::strategies {

/// The ratings of a block.
inline data::SparseEntries ratings_of(data::SparseEntries entries, data::ExampleRange block) {
  return entries.subspan(static_cast<std::size_t>(block.first), static_cast<std::size_t>(block.size()));
}

/// The rows of a grid of ratings lie on the ranks, part by part, each with its users; its columns, with their items,
/// travel round them. On diagonal w, row i meets column i + w (mod side). So after each diagonal a rank passes the
/// column of its first row on to the rank before it, and gets one for its last row from the rank behind it. Diagonals
/// are counted on and on; after `side` of them every column is where it was.
class ItemRing final : public Division {
 public:
  /// \param model must be bipartite \throws ConfigError where there are more ranks than rows
  ItemRing(const models::Model& model, const data::DatasetInfo& data, comm::Communicator& communicator);

  Index size() const override;
  void begin(std::int64_t step) override { diagonal_ = step; }
  ShardMap map() const override;
  std::vector<Index> offsets() const override;
  void initialise(std::uint64_t seed, MutableView parameters) const override;
  void evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) override;

  /// What is done with the block of a row of this rank (0 … rows() − 1) on a diagonal, on any thread.
  using Visit = std::function<void(Index row, std::int64_t diagonal, const models::TableParts& parts)>;
  /// Visits this rank's blocks of `count` diagonals from the present one on. Blocks of one row, and of one column, are
  /// visited one after the other in the order of the diagonals, others at the same time; nobody waits for a diagonal's
  /// end. The columns travel meanwhile. Collective.
  /// \return seconds by this clock that the calling thread waited for columns
  double pass(std::int64_t count, MutableView parameters, ThreadTeam& team, const Visit& visit,
              const Clock& clock = steady_clock());

  Index rows() const { return last_row_ - first_row_; }
  const models::Bipartite& model() const { return model_; }
  std::int64_t diagonal() const { return diagonal_; }  ///< that the next pass begins with
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  class Pass;

  bool is_alone() const { return communicator_.size() == 1; }
  /// Places for columns: one for each row, one that is being sent, one that is being received.
  Index places() const { return rows() + (is_alone() ? 0 : 2); }
  /// Where the column is that row `row` (of the grid) meets on a diagonal: floats from the start of the memory.
  Index place_of(std::int64_t row, std::int64_t diagonal) const;
  Index column_of(std::int64_t row, std::int64_t diagonal) const { return (row + diagonal) % items_.parts; }
  Index column_floats(Index column) const { return items_.size(column) * item_space_.stride; }
  /// see(space, series of its rows, row of the grid that they are at) for all that a rank holds now.
  template <typename See>
  void for_each_part(int rank, See see) const;
  /// The same with where they begin in this rank's memory, in place of the row.
  template <typename See>
  void for_each_own_part(See see) const;
  /// see(number of the block, floats from a row's start to its numbers) for the blocks that a space's rows are made of.
  template <typename See>
  void for_each_block(std::size_t space, See see) const;

  const models::Bipartite& model_;
  const ParameterLayout& layout_;
  models::RowSpace user_space_, item_space_;
  data::Deal users_, items_;
  comm::Communicator& communicator_;
  Index first_row_, last_row_;  ///< of the grid: this rank's
  Index user_rows_ = 0;
  std::int64_t diagonal_ = 0, sent_bytes_ = 0;
};

}  // namespace unisono::strategies
