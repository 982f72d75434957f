#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"
#include "unisono/models/r2.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::models {

/// Base of models that can only be updated in place: they have no gradient of a batch.
class InPlaceModel : public Model, public InPlace {
 public:
  const InPlace* in_place() const final { return this; }
  const ParameterLayout& layout() const final { return layout_; }
  const ParameterLayout& statistics_layout() const final { return statistics_; }
  void require_gradient() const final;
  void loss_and_gradient(const data::Batch&, float, ModelState, const GradientTarget&, kernels::LossSums&) final {
    require_gradient();
  }
  /// The default, for word vectors, which predict nothing of an example. \throws ConfigError
  void predict(const data::Batch& batch, ModelState state, MutableView outputs) override;
  std::vector<Metric> metrics(const kernels::LossSums& sums) const override;  ///< the mean loss
  Index workspace_bytes(Index) const final { return 0; }

 protected:
  /// \param kind for messages, e.g. "glove"
  explicit InPlaceModel(std::string kind) : kind_(std::move(kind)), kernels_(kernels::make_in_place_kernels()) {}

  const std::string kind_;
  const std::unique_ptr<kernels::InPlaceKernels> kernels_;
  ParameterLayout layout_;

 private:
  ParameterLayout statistics_;
};

/// part / whole: a mean over examples. NaN without any.
inline double ratio(double part, std::int64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN() : part / static_cast<double>(whole);
}

/// Adds R² over all outputs together, where it is defined.
inline void add_r2(const kernels::LossSums& sums, std::vector<Metric>& metrics) {
  if (const double r2 = r2_of(sums); !std::isnan(r2)) metrics.push_back(metric_of("r2", r2));
}

// Shared by models that have a row of θ for each word, user or item.

/// Fills rows with uniform random numbers in [−bound, bound), a function of (seed, number of the block, row).
/// \param series the rows to draw, which are consecutive in the matrix; `width` numbers each
void draw_rows(std::uint64_t seed, std::uint32_t number, float bound, RowSeries series, Index width,
               const kernels::RowMatrix& matrix);

/// Sets `column` of every row to a value.
void fill_column(float value, Index rows, Index column, const kernels::RowMatrix& matrix);

/// A block of θ with one row for each of `rows` things; the model initialises it itself.
Block row_block(std::string name, Index rows, Index width, Role role);

/// Checks that a model has this update rule. \throws ConfigError if not
void require_rule(const std::string& rule, const std::vector<std::string>& rules, const std::string& model);
/// Marks the rows (space 0) and columns (space 1) of entries as touched.
void mark_entries(std::span<const SparseEntry> entries, TouchedRows& touched);
/// Meters an entry and takes the locks of its rows, if the step asks for these. \param rows must outlive the guard,
/// unchanged
std::optional<RowLocks::Guard> enter_entry(const SparseEntry& entry, const InPlaceStep& step, RowLocks::Set& rows);

/// Adds a kernel's loss sums.
void add(const kernels::InPlaceSums& from, kernels::LossSums& sums);

/// The ratings or co-occurrences of one range of a batch's set.
data::SparseEntries entries_of(const data::Batch& batch, data::ExampleRange range);

/// The workspace of a model of ratings or co-occurrences.
class EntryScratch final : public Scratch {
 public:
  RowLocks::Set rows;
};

/// Trains on entries by calling kernel(entries) → InPlaceSums: on all at once, or one by one if the step needs locks or
/// metering.
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
