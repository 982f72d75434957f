#include "stream/streaming_feed.hpp"

#include <algorithm>
#include <set>

namespace unisono::data {
namespace {

/// From how many lanes a rank takes examples.
std::int64_t lanes_of(const LaneSettings& settings, Schedule schedule) {
  const LaneOrder order(settings, 0);
  std::set<std::int64_t> lanes;
  schedule.seek({0, 0});
  for (bool last = false; !last; schedule.advance()) {
    const MicroBatch batch = schedule.current();
    for (const LaneShare& part : order.parts(batch)) lanes.insert(part.lane);
    last = batch.last_of_step;
  }
  return static_cast<std::int64_t>(lanes.size());
}

}  // namespace

StreamingFeed::StreamingFeed(const hdf5::File& file, const GroupSchema& group, LaneSettings settings,
                             const Schedule& schedule, std::int64_t window_bytes)
    : group_(group),
      settings_(std::move(settings)),
      orders_(settings_),
      open_(static_cast<std::size_t>(settings_.shape.lanes)) {
  const std::int64_t two_passes = 2 * settings_.examples * group.bytes_per_example();  // enough for a small set
  const std::int64_t budget =
      std::min(window_bytes, two_passes) * lanes_of(settings_, schedule) / settings_.shape.lanes;
  reader_ = std::make_unique<CellReader>(file, group, settings_, schedule, budget);
}

void StreamingFeed::seek(const DataCursor& cursor) {
  for (auto& cell : open_) cell.reset();
  retired_.clear();
  reader_->start(cursor);
}

void StreamingFeed::retire(std::unique_ptr<LoadedCell>& cell) {
  if (cell) retired_.push_back(std::move(cell));
}

void StreamingFeed::free_retired() {
  std::int64_t bytes = 0;
  for (const auto& cell : retired_) bytes += LoadedCell::bytes(group_, cell->cell());
  retired_.clear();
  if (bytes > 0) reader_->release(bytes);
}

void StreamingFeed::take_from(const LaneOrder& order, const LaneShare& part, std::vector<RawExample>& examples) {
  auto& open = open_[static_cast<std::size_t>(part.lane)];
  for (std::int64_t position = part.positions.first; position < part.positions.last; ++position) {
    const std::int64_t row = order.virtual_row(part.lane, position);
    if (!open || row >= open->cell().rows.last) {
      retire(open);
      const Cell cell = order.cell_at(part.lane, position);
      open = reader_->take({epoch_, cell.lane, cell.group});
    }
    examples.push_back(open->example(row - open->cell().rows.first));
    if (row + 1 == open->cell().rows.last) retire(open);
  }
}

void StreamingFeed::gather(const MicroBatch& batch, std::vector<RawExample>& examples) {
  free_retired();
  examples.clear();
  if (batch.epoch != epoch_) {
    for (auto& cell : open_) retire(cell);  // open cells may have unused examples
    epoch_ = batch.epoch;
  }
  const LaneOrder& order = orders_.of(epoch_);
  for (const LaneShare& part : order.parts(batch)) take_from(order, part, examples);
  reader_->note_done();
}

}  // namespace unisono::data
