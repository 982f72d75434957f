#pragma once

#include <memory>
#include <vector>

#include "source/feed.hpp"
#include "stream/cell_reader.hpp"

namespace unisono::data {

/// Fetches examples from the file, in the order that lane_order.hpp describes.
class StreamingFeed final : public Feed {
 public:
  /// \param window_bytes in total, over all ranks that share this order
  StreamingFeed(const hdf5::File& file, const GroupSchema& group, LaneSettings settings, const Schedule& schedule,
                std::int64_t window_bytes);

  void gather(const MicroBatch& batch, std::vector<RawExample>& examples) override;
  void seek(const DataCursor& cursor) override;
  void interrupt() override { reader_->stop(); }

  const CellReader& reader() const { return *reader_; }

 private:
  void free_retired();
  void retire(std::unique_ptr<LoadedCell>& cell);
  void take_from(const LaneOrder& order, const LaneShare& part, std::vector<RawExample>& examples);

  const GroupSchema& group_;
  LaneSettings settings_;
  LaneOrders orders_;
  std::int64_t epoch_ = -1;
  std::vector<std::unique_ptr<LoadedCell>> open_;     ///< by lane
  std::vector<std::unique_ptr<LoadedCell>> retired_;  ///< used up; the last examples may still point into them
  std::unique_ptr<CellReader> reader_;
};

}  // namespace unisono::data
