#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Checks that alternating least squares can train a model. \throws ConfigError if not
void require_alternating(const models::Model& model);

/// About how many bytes a rank allocates for it in addition to θ, if the ranks have equal shares of the ratings.
std::int64_t alternating_bytes(const models::Alternating& model, int ranks);

/// Trains by alternating least squares until total_steps iterations are made, or the observer says so, or an iteration
/// changes the objective by at most AlsSettings::function_tolerance. One iteration is one step and one epoch. θ is all
/// that one iteration leaves to the next. All ranks end with the same bits, which depend neither on the number of ranks
/// nor on threads. Collective.
/// The value of an iteration is the objective, divided by the number of ratings.
void train_alternating(TrainContext& run);

/// Numbers [first, last).
struct Numbers {
  Index first = 0, last = 0;
  Index count() const { return last - first; }
};

/// How the rows of one of two tables are divided: into portions of consecutive rows, each about as much work as the
/// others, and these among the ranks. The portions are a function of the rows' ratings, not of the ranks.
class TablePortions {
 public:
  static constexpr Index kPortions = 4096;  ///< about, where there are more rows than that

  /// \param work of each row, e.g. flops
  explicit TablePortions(std::span<const double> work);

  Index size() const { return std::ssize(first_rows_) - 1; }
  Numbers rows(Index portion) const { return {first_rows_[at(portion)], first_rows_[at(portion) + 1]}; }
  /// A rank's portions, and its rows.
  Numbers of_rank(int rank, int ranks) const;
  Numbers rows_of_rank(int rank, int ranks) const;
  double work_of_rank(int rank, int ranks) const;

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  std::vector<Index> first_rows_{0};  ///< of each portion; last: the number of rows
  std::vector<double> work_{0};       ///< of all portions before
};

/// The training ratings of some rows of a table, row by row (CSR), in the order of the other table's rows.
class TableRatings {
 public:
  /// \param counts ratings of each row of the table \param others number of rows of the other table
  TableRatings(std::size_t space, Numbers rows, std::span<const std::int64_t> counts, Index others,
               data::Dataset& data);
  /// Makes of several ratings of one pair one with their sum.
  void add_up();
  bool has_positive() const;

  /// \param number one of the rows
  models::RatedRow row(Index number) const;

 private:
  std::vector<SparseEntry> own_ratings(data::Dataset& data) const;
  Index row_of(const SparseEntry& rating) const { return space_ == 0 ? rating.row : rating.column; }
  std::uint32_t other_of(const SparseEntry& rating) const { return space_ == 0 ? rating.column : rating.row; }

  std::size_t space_;
  Numbers rows_;
  std::vector<std::size_t> offsets_{0};  ///< [rows + 1]
  std::vector<std::uint32_t> others_;
  std::vector<float> values_;
};

}  // namespace unisono::strategies
