#pragma once

#include <optional>

#include "order/row_runs.hpp"
#include "source/prefetcher.hpp"

namespace unisono::data {

/// Gives the examples of positions [first, last) of a split, asked for in order.
class SequentialReader {
 public:
  virtual ~SequentialReader() = default;
  /// \param examples overwritten; what they point to stays until the next call
  virtual void read(Range positions, std::vector<RawExample>& examples) = 0;
};

/// Out of memory.
std::unique_ptr<SequentialReader> read_resident(RowBlock rows, const RowRuns& positions);
/// Out of the file, block by block.
std::unique_ptr<SequentialReader> read_streaming(const hdf5::File& file, const GroupSchema& group,
                                                 const RowRuns& positions);

/// A rank's part of a split, in the set's order, in batches.
class SequentialSource final : public EvaluationSource {
 public:
  SequentialSource(Range part, Index batch_size, std::unique_ptr<SequentialReader> reader, const BatchWriter& writer,
                   Allocator& memory);

  std::optional<Batch> next() override;
  std::int64_t first() const override { return part_.first; }
  std::int64_t last() const override { return part_.last; }

 private:
  bool prepare(PreparedBatch& prepared);

  Range part_;
  Index batch_size_;
  std::int64_t next_;
  std::unique_ptr<SequentialReader> reader_;
  BatchWriter writer_;
  std::vector<RawExample> examples_;
  std::optional<Prefetcher> prefetcher_;
};

}  // namespace unisono::data
