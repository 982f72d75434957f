#pragma once

#include <vector>

#include "dense/rows.hpp"
#include "order/schedule.hpp"

namespace unisono::data {

/// Gives the examples of a rank's micro-batches, which are asked for in the order of its schedule.
class Feed {
 public:
  virtual ~Feed() = default;
  /// \param examples overwritten; what they point to stays until the next call
  virtual void gather(const MicroBatch& batch, std::vector<RawExample>& examples) = 0;
  /// The next micro-batch asked for will be the first of this step.
  virtual void seek(const DataCursor& cursor) = 0;
  /// Ends a `gather` that waits, with an exception. Called by another thread.
  virtual void interrupt() {}
};

}  // namespace unisono::data
