#pragma once

#include "order/schedule.hpp"
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

/// Batches that name ranges of a split in memory. An epoch's order is a permutation of the chunks, a function of (seed,
/// epoch); step s takes places s·B … (s+1)·B − 1 of it, and rank r of P takes its slice of these, so that P ranks
/// together see what one rank would see. Places are counted in examples. A text's chunks are whole sentences and are
/// never cut: a chunk belongs to the step and rank of its first word.
class RangeSource final : public BatchSource {
 public:
  /// \param split must outlive it \param options of which `micro_batches` is 1
  RangeSource(const LoadedSplit& split, const SourceOptions& options, bool shuffle);

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t examples_per_epoch() const override { return split_.examples; }
  void seek(const DataCursor& cursor) override;
  double wait_seconds() const override { return 0; }

 private:
  std::size_t chunks() const { return split_.chunks.size(); }
  void begin_epoch(std::int64_t epoch);
  /// A step beyond the epoch's end counts into the following epochs.
  void go_to(const DataCursor& cursor);
  Range step_places() const;
  /// Appends the ranges at these places. \return how many examples they have
  Index collect(Range places, std::vector<ExampleRange>& ranges) const;

  const LoadedSplit& split_;
  SourceOptions options_;
  bool shuffle_;
  std::int64_t steps_;
  bool whole_chunks_;
  DataCursor cursor_;
  std::vector<std::uint32_t> order_;       ///< the epoch's order of chunks
  std::vector<std::int64_t> first_place_;  ///< the place of each chunk's first example; last: all examples
  std::vector<ExampleRange> ranges_, unused_;
};

/// One pass over a rank's part of a split, in the order of its chunks, which is that in memory or, of a fold's
/// validation rows, that of the file.
class RangeEvaluation final : public EvaluationSource {
 public:
  /// \param split must outlive it \param batch_size rows, entries or sentences per batch
  RangeEvaluation(const LoadedSplit& split, int rank, int size, Index batch_size);

  std::optional<Batch> next() override;
  std::int64_t first() const override { return part_.first; }
  std::int64_t last() const override { return part_.last; }

 private:
  const LoadedSplit& split_;
  Range part_;  ///< of all rows, entries or sentences of the split
  Index batch_size_;
  std::int64_t at_;        ///< how many of them come before the next batch
  std::size_t chunk_ = 0;  ///< where the next batch begins
  std::int64_t skipped_ = 0;
  std::vector<ExampleRange> ranges_;
};

}  // namespace unisono::data
