#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/tensor/layout.hpp"

// What models with a row of θ for each word, user or item share.

namespace unisono::models {

/// Numbers in [−bound, bound), a function of (seed, number of the block, row).
/// \param series of rows, which stand one behind the other in the matrix, `width` numbers each
void draw_rows(std::uint64_t seed, std::uint32_t number, float bound, RowSeries series, Index width,
               const kernels::RowMatrix& matrix);

/// value at `column` of every row.
void fill_column(float value, Index rows, Index column, const kernels::RowMatrix& matrix);

/// A block of a row each for `rows` things; initial values are the model's own affair.
Block row_block(std::string name, Index rows, Index width, Role role);

/// \throws ConfigError where a model has no such update rule
void require_rule(const std::string& rule, const std::vector<std::string>& rules, const std::string& model);
/// Marks the rows (space 0) and columns (space 1) of entries.
void mark_entries(std::span<const SparseEntry> entries, TouchedRows& touched);
/// Meters an entry and takes its locks, where these are wanted. \param rows must outlive the guard, unchanged
std::optional<RowLocks::Guard> enter_entry(const SparseEntry& entry, const InPlaceStep& step, RowLocks::Set& rows);

/// Adds a kernel's sums.
void add(const kernels::InPlaceSums& from, kernels::LossSums& sums);

/// A batch's ratings or co-occurrences of one range.
data::SparseEntries entries_of(const data::Batch& batch, data::ExampleRange range);

/// Of a model of such entries.
class EntryScratch final : public Scratch {
 public:
  RowLocks::Set rows;
};

/// Trains on entries by kernel(entries) → InPlaceSums: on all at once, or one by one where the step needs that.
template <typename Kernel>
void update_entries(data::SparseEntries entries, const InPlaceStep& step, Scratch& scratch, kernels::LossSums& sums,
                    Kernel kernel) {
  if (step.touched != nullptr) mark_entries(entries, *step.touched);
  if (!step.one_by_one()) {
    add(kernel(entries), sums);
    return;
  }
  RowLocks::Set& rows = static_cast<EntryScratch&>(scratch).rows;
  for (const SparseEntry& entry : entries) {
    const auto guard = enter_entry(entry, step, rows);
    add(kernel(data::SparseEntries(&entry, 1)), sums);
  }
}

}  // namespace unisono::models
