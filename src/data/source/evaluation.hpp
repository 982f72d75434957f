#pragma once

#include <memory>
#include <optional>

#include "order/row_runs.hpp"
#include "source/train_source.hpp"

namespace unisono::data {

/// Converts rows in memory into batches; kept from one pass to the next, so that a pass allocates nothing.
struct RowConversion {
  RowConversion(const BatchWriter& writer_, Index largest_, Allocator& memory)
      : writer(writer_), largest(largest_), buffer(writer.make(largest, memory)) {}

  BatchWriter writer;
  Index largest;  ///< examples of a batch
  PreparedBatch buffer;
  std::vector<RawExample> examples = {};
};

/// Batches of part of a split whose rows are in memory, in the set's order, made when they are asked for, without a
/// thread. \param rows, positions must outlive the source
std::unique_ptr<EvaluationSource> convert_rows(Range part, Index batch_size, const RowBlock& rows,
                                               const RowRuns& positions, std::shared_ptr<RowConversion> conversion);

/// The same of float32 features that need no conversion: batches point at the rows where they lie, so that each ends
/// where a run of rows ends. They have no `examples`.
std::unique_ptr<EvaluationSource> rows_in_place(Range part, Index batch_size, const RowBlock& rows,
                                                const RowRuns& positions, const GroupSchema& group,
                                                const BatchStyle& style);

/// Reads the examples of a split, in ascending order of positions.
class SequentialReader {
 public:
  virtual ~SequentialReader() = default;
  /// \param examples overwritten; their pointers are valid until the next call
  virtual void read(Range positions, std::vector<RawExample>& examples) = 0;
};

/// From memory.
std::unique_ptr<SequentialReader> read_resident(RowBlock rows, const RowRuns& positions);
/// From the file, block by block.
std::unique_ptr<SequentialReader> read_streaming(const hdf5::File& file, const GroupSchema& group,
                                                 const RowRuns& positions);

/// Batches of a rank's part of a split, in the set's order.
class SequentialSource final : public EvaluationSource {
 public:
  /// \param ahead whether a thread prepares them while earlier ones are in use
  SequentialSource(Range part, Index batch_size, std::unique_ptr<SequentialReader> reader, const BatchWriter& writer,
                   Allocator& memory, bool ahead);

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
  PreparedBatch prepared_;  ///< if there is no prefetcher
  std::optional<Prefetcher> prefetcher_;
};

}  // namespace unisono::data
