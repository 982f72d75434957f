#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "unisono/models/in_place.hpp"

namespace unisono::models {

/// A row of one of a model's two tables, and its ratings.
struct RatedRow {
  std::size_t space = 0;                       ///< 0: the rows (users), 1: the columns (items), as in row_spaces()
  Index number = 0;                            ///< of the row in its table
  std::span<const std::uint32_t> others = {};  ///< [n] rows of the other table
  View values = {};                            ///< [n] the ratings

  Index ratings() const { return std::ssize(others); }
};

/// Implemented by a model of two tables (users and items) whose objective
///     J = Σ ratings' losses + Σ penalties of rows + a share that depends on the tables' Gram matrices alone
/// is a quadratic function of each row while the other table is fixed. θ is in plain memory and holds both tables. The
/// functions change only what they are given, and threads may call them concurrently for different rows.
class Alternating {
 public:
  virtual ~Alternating() = default;

  /// How many ratings it is trained on; 0: unknown.
  virtual std::int64_t training_ratings() const = 0;
  /// Whether several ratings of one pair are one with their sum (counts of events), and whether there must be one
  /// above 0.
  virtual bool adds_up_ratings() const = 0;
  /// Floats of a table's Gram matrix Σ x xᵀ, which all rows of the other table share; 0: they share none.
  virtual Index gram_floats() const = 0;
  /// gram += Σ x xᵀ over rows [first, last) of a table.
  virtual void add_gram(std::size_t space, Index first, Index last, View parameters, MutableView gram) const = 0;
  /// The share of J that belongs to neither ratings nor rows. \param grams of both tables
  virtual double shared_loss(View row_gram, View column_gram) const = 0;

  /// A thread's workspace.
  virtual std::unique_ptr<Scratch> make_solver() const = 0;
  /// The row ← the minimum of J over it. A row without ratings becomes zero.
  /// \param gram of the other table; empty where there is none
  virtual void solve(const RatedRow& row, View gram, MutableView parameters, Scratch& scratch) const = 0;
  /// About how many flops `solve` takes for a row with n ratings.
  virtual double solving_flops(Index n) const = 0;

  /// The row's penalty in J.
  virtual double row_penalty(const RatedRow& row, View parameters) const = 0;
  /// Adds the row's ratings to `sums`. \return their losses in J
  virtual double add_losses(const RatedRow& row, View parameters, Scratch& scratch, kernels::LossSums& sums) const = 0;
};

}  // namespace unisono::models
