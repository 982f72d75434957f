#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dense/rows.hpp"
#include "order/schedule.hpp"
#include "source/prefetcher.hpp"

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

/// A rank's training batches. In a prefetching thread, the Schedule says which examples are next, the Feed fetches
/// them, and the BatchWriter makes a batch of them.
class TrainSource final : public BatchSource {
 public:
  /// \param options only `lane` and `lanes` (which steps this source yields) and the memory of batches are used
  TrainSource(const Schedule& schedule, std::unique_ptr<Feed> feed, const BatchWriter& writer,
              const SourceOptions& options);
  ~TrainSource() override;

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return schedule_.steps_per_epoch(); }
  std::int64_t examples_per_epoch() const override { return schedule_.examples(); }
  void seek(const DataCursor& cursor) override;
  double wait_seconds() const override;

 private:
  void start();
  void stop();
  bool prepare(PreparedBatch& prepared);
  void skip_steps(int count);

  Schedule schedule_;  ///< used by the thread while there is one
  std::unique_ptr<Feed> feed_;
  BatchWriter writer_;
  int lane_, lanes_;
  Allocator* memory_;  ///< of batches
  std::vector<RawExample> examples_;
  DataCursor start_;
  double wait_seconds_ = 0;  ///< of earlier threads, before `seek`
  std::optional<Prefetcher> prefetcher_;
};

}  // namespace unisono::data
