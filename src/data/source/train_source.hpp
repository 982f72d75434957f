#pragma once

#include <memory>
#include <optional>

#include "source/feed.hpp"
#include "source/prefetcher.hpp"

namespace unisono::data {

/// Schedule → feed → writer, in a prefetching thread.
class TrainSource final : public BatchSource {
 public:
  /// \param options lane and lanes: which steps this source has
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

  Schedule schedule_;  ///< the thread's, while there is one
  std::unique_ptr<Feed> feed_;
  BatchWriter writer_;
  int lane_, lanes_;
  Allocator* memory_;  ///< of batches
  std::vector<RawExample> examples_;
  DataCursor start_;
  double wait_seconds_ = 0;  ///< of threads that are gone
  std::optional<Prefetcher> prefetcher_;
};

}  // namespace unisono::data
