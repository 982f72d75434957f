#pragma once

#include "sparse/split.hpp"

namespace unisono::data {

/// Batches of a grid's diagonals: step w of an epoch takes the blocks of row i and column (i + w) mod side, all rows i,
/// and rank r of P those of its part of the rows. These share neither users nor items, so any order of them, and any
/// threads and ranks, make the same of θ (Gemulla et al., "Large-scale matrix factorization with distributed stochastic
/// gradient descent", KDD 2011: a diagonal is a stratum). A batch's ranges are its blocks, row after row, empty ones
/// too.
class StrataSource final : public BatchSource {
 public:
  /// \param split with a grid; must outlive it
  StrataSource(const LoadedSplit& split, const SourceOptions& options);

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return split_.grid->side(); }
  std::int64_t examples_per_epoch() const override { return split_.examples; }
  void seek(const DataCursor& cursor) override { cursor_ = cursor; }
  double wait_seconds() const override { return 0; }

 private:
  const LoadedSplit& split_;
  Range rows_;                               ///< this rank's
  std::vector<std::int64_t> first_example_;  ///< of each step in the epoch; then their number
  DataCursor cursor_;
  std::vector<ExampleRange> ranges_;
};

/// A rank's part of a split, in the same order.
class StrataEvaluation final : public EvaluationSource {
 public:
  StrataEvaluation(const LoadedSplit& split, int rank, int size);

  std::optional<Batch> next() override;
  std::int64_t first() const override { return 0; }
  std::int64_t last() const override { return split_.grid->kept(); }

 private:
  const LoadedSplit& split_;
  Range rows_;
  Index step_ = 0;
  std::vector<ExampleRange> ranges_;
};

}  // namespace unisono::data
