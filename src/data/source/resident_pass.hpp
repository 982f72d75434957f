#pragma once

#include <memory>

#include "order/row_runs.hpp"
#include "source/prepared_batch.hpp"

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

}  // namespace unisono::data
