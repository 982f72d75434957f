#pragma once

#include <vector>

#include "dense/rows.hpp"
#include "order/schedule.hpp"

namespace unisono::data {

/// Fetches the examples of a rank's micro-batches, in the order of its schedule.
class Feed {
 public:
  virtual ~Feed() = default;
  /// \param examples overwritten; their pointers are valid until the next call
  virtual void gather(const MicroBatch& batch, std::vector<RawExample>& examples) = 0;
  /// The next `gather` will be for the first micro-batch of this step.
  virtual void seek(const DataCursor& cursor) = 0;
  /// Makes a `gather` that waits in another thread throw.
  virtual void interrupt() {}
};

}  // namespace unisono::data
