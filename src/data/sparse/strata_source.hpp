#pragma once

#include "sparse/split.hpp"

namespace unisono::data {

/// Batches for training in strata: step w of an epoch takes the diagonal of blocks (i, (i + w) mod side) of
/// the grid, for all rows i; a rank takes those of its rows. The blocks of a diagonal share neither users nor items, so
/// θ does not depend on their order, nor on how threads and ranks divide them (Gemulla et al., "Large-scale matrix
/// factorization with distributed stochastic gradient descent", KDD 2011: a diagonal is a stratum). A batch's ranges
/// are its blocks, row after row, empty ones too.
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
  std::vector<std::int64_t> first_example_;  ///< of each step in the epoch; last: all examples
  DataCursor cursor_;
  std::vector<ExampleRange> ranges_;
};

/// One pass over a rank's part of a split, in the same order.
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
