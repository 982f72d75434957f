#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "in_place_model.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::models {

void draw_rows(std::uint64_t seed, std::uint32_t number, float bound, RowSeries series, Index width,
               const kernels::RowMatrix& matrix) {
  for (Index row = 0; row < series.count; ++row) {
    const auto number_of_row = static_cast<std::uint64_t>(series.first + row * series.step);
    RandomStream random(seed, Purpose::initial_weights, number_of_row, number);
    for (float* value = matrix.row(row); value < matrix.row(row) + width; ++value)
      *value = random.uniform(-bound, bound);
  }
}

void fill_column(float value, Index rows, Index column, const kernels::RowMatrix& matrix) {
  for (Index row = 0; row < rows; ++row) matrix.row(row)[column] = value;
}

Block row_block(std::string name, Index rows, Index width, Role role) {
  Block block;
  block.name = std::move(name);
  block.shape = width == 0 ? std::vector<Index>{rows} : std::vector<Index>{rows, width};
  block.role = role;
  return block;
}

void require_rule(const std::string& rule, const std::vector<std::string>& rules, const std::string& model) {
  if (std::find(rules.begin(), rules.end(), rule) != rules.end()) return;
  throw ConfigError(
      fmt::format("optimizer.kind = \"{}\": model.kind = \"{}\" is updated in place, which supports only {}", rule,
                  model, fmt::join(rules, " or ")));
}

data::SparseEntries entries_of(const data::Batch& batch, data::ExampleRange range) {
  return std::get<data::SparseEntries>(*batch.set)
      .subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.size()));
}

void mark_entries(std::span<const SparseEntry> entries, TouchedRows& touched) {
  for (const SparseEntry& entry : entries) {
    touched.mark(0, entry.row);
    touched.mark(1, entry.column);
  }
}

std::optional<RowLocks::Guard> enter_entry(const SparseEntry& entry, const InPlaceStep& step, RowLocks::Set& rows) {
  if (step.meter != nullptr) {
    step.meter->begin(step.thread);
    step.meter->touch(step.thread, 0, entry.row);
    step.meter->touch(step.thread, 1, entry.column);
  }
  if (step.locks == nullptr) return {};
  rows.clear();
  rows.add(*step.locks, 0, entry.row);
  rows.add(*step.locks, 1, entry.column);
  return step.locks->lock(rows);
}

void add(const kernels::InPlaceSums& from, kernels::LossSums& sums) {
  sums.loss += from.loss;
  sums.examples += from.examples;
  sums.correct += from.correct;
  sums.squared_error += from.squared_error;
  sums.absolute_error += from.absolute_error;
  sums.values += from.examples;
}

}  // namespace unisono::models
