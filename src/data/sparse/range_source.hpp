#pragma once

#include "order/keyed_permutation.hpp"
#include "sparse/split.hpp"

namespace unisono::data {

/// Batches that name chunks of a split in memory. An epoch's order is a permutation of the chunks, a function of (seed,
/// epoch); step s of S takes places s·C/S to (s+1)·C/S of it, and rank r of P its part of these. So an epoch visits
/// every example once, whatever P is.
class RangeSource final : public BatchSource {
 public:
  /// \param split must outlive it
  RangeSource(const LoadedSplit& split, const SourceOptions& options, bool shuffle);

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t examples_per_epoch() const override { return split_.examples; }
  void seek(const DataCursor& cursor) override;
  double wait_seconds() const override { return 0; }

 private:
  std::int64_t chunks() const { return static_cast<std::int64_t>(split_.chunks.size()); }
  std::size_t chunk_at(std::int64_t place) const;
  Index examples_at(Range places) const;
  void begin_epoch();

  const LoadedSplit& split_;
  SourceOptions options_;
  bool shuffle_;
  std::int64_t steps_;
  DataCursor cursor_;
  std::int64_t examples_before_ = 0;  ///< of the epoch
  KeyedPermutation order_;
  std::vector<ExampleRange> ranges_;
};

/// A rank's part of a split, in the order of the memory.
class RangeEvaluation final : public EvaluationSource {
 public:
  /// \param batch_size rows, entries or sentences at once
  RangeEvaluation(const LoadedSplit& split, int rank, int size, Index batch_size);

  std::optional<Batch> next() override;
  std::int64_t first() const override { return part_.first - begin_; }
  std::int64_t last() const override { return part_.last - begin_; }

 private:
  const LoadedSplit& split_;
  std::int64_t begin_;
  Range part_;
  Index batch_size_;
  std::int64_t at_;
  ExampleRange range_;
};

}  // namespace unisono::data
