#include "stream/lane_order.hpp"

#include <algorithm>
#include <cassert>

namespace unisono::data {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::uint64_t draw_seed(RandomStream random) {
  const std::uint64_t high = random.bits();
  return (high << 32) | random.bits();
}

/// Index of the last start ≤ x.
std::int64_t segment_of(const std::vector<std::int64_t>& starts, std::int64_t x) {
  return std::upper_bound(starts.begin(), starts.end(), x) - starts.begin() - 1;
}

}  // namespace

LaneShape choose_lanes(std::int64_t window_bytes, std::int64_t block_bytes, std::int64_t blocks, std::int64_t batch) {
  const std::int64_t cells = std::max<std::int64_t>(1, window_bytes / (2 * block_bytes));
  LaneShape shape;
  shape.lanes = std::max<std::int64_t>(1, std::min({cells, batch, blocks}));
  shape.group_blocks = std::max<std::int64_t>(1, cells / shape.lanes);
  return shape;
}

LaneOrder::LaneOrder(const LaneSettings& settings, std::int64_t epoch) : settings_(settings) {
  const RandomStream random(settings.seed, Purpose::order, static_cast<std::uint64_t>(epoch), settings.number);
  block_order_ = KeyedPermutation(settings.blocks.size(), random);
  cell_seed_ = draw_seed(random);
  block_starts_.push_back(0);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(settings.blocks.size()); ++i) {
    block_starts_.push_back(block_starts_.back() + block(i).size());
  }
  starts_.push_back(0);
  const std::int64_t full = settings.examples / settings.batch, rest = settings.examples % settings.batch;
  for (std::int64_t lane = 0; lane < settings.shape.lanes; ++lane) {
    starts_.push_back(starts_.back() + full * taken(lane, settings.batch) + taken(lane, rest));
  }
  assert(starts_.back() == settings.examples && block_starts_.back() == settings.examples);
}

const Range& LaneOrder::block(std::int64_t place) const {
  return settings_.blocks[settings_.shuffle ? block_order_(static_cast<std::uint64_t>(place)) : at(place)];
}

std::int64_t LaneOrder::first_place(std::int64_t lane, std::int64_t step_size) const {
  return divide_up(lane * step_size, settings_.shape.lanes);
}

std::int64_t LaneOrder::taken(std::int64_t lane, std::int64_t step_size) const {
  return first_place(lane + 1, step_size) - first_place(lane, step_size);
}

std::vector<LaneShare> LaneOrder::parts(const MicroBatch& batch) const {
  std::vector<LaneShare> parts;
  const std::int64_t size = batch.step_places.size(), step = batch.step_places.first / settings_.batch;
  for (std::int64_t place = batch.places.first; place < batch.places.last;) {
    const std::int64_t lane = place * settings_.shape.lanes / size;
    const std::int64_t first = first_place(lane, size), last = std::min(first_place(lane + 1, size), batch.places.last);
    const std::int64_t before = step * taken(lane, settings_.batch);  // by the previous steps, which were full
    parts.push_back({lane, {before + place - first, before + last - first}});
    place = last;
  }
  return parts;
}

Cell LaneOrder::cell_at(std::int64_t lane, std::int64_t position) const {
  const std::int64_t row = virtual_row(lane, position),
                     group = segment_of(block_starts_, row) / settings_.shape.group_blocks;
  const std::int64_t blocks = static_cast<std::int64_t>(settings_.blocks.size());
  const std::int64_t first = block_starts_[at(group * settings_.shape.group_blocks)];
  const std::int64_t last = block_starts_[at(std::min((group + 1) * settings_.shape.group_blocks, blocks))];
  return {lane, group, {std::max(first, starts_[at(lane)]), std::min(last, starts_[at(lane + 1)])}};
}

std::vector<Range> LaneOrder::file_rows(const Cell& cell) const {
  std::vector<Range> ranges;
  for (std::int64_t row = cell.rows.first; row < cell.rows.last;) {
    const std::int64_t place = segment_of(block_starts_, row);
    const std::int64_t last = std::min(block_starts_[at(place + 1)], cell.rows.last);
    const std::int64_t in_file = block(place).first - block_starts_[at(place)];
    ranges.push_back({in_file + row, in_file + last});
    row = last;
  }
  return ranges;
}

KeyedPermutation LaneOrder::shuffle_of(const Cell& cell) const {
  return {static_cast<std::uint64_t>(cell.rows.size()),
          RandomStream(cell_seed_, Purpose::order, static_cast<std::uint64_t>(cell.rows.first))};
}

const LaneOrder& LaneOrders::of(std::int64_t epoch) {
  if (epoch != epoch_) order_ = std::make_unique<LaneOrder>(settings_, epoch);
  epoch_ = epoch;
  return *order_;
}

std::vector<Range> blocks_of(const RowRuns& rows, Range positions, std::int64_t block_rows) {
  std::vector<Range> blocks;
  for (const auto& run : rows.runs(positions)) {
    const std::int64_t end = run.first_row + run.rows;
    for (std::int64_t row = run.first_row; row < end;) {
      const std::int64_t last = std::min((row / block_rows + 1) * block_rows, end);
      blocks.push_back({row, last});
      row = last;
    }
  }
  return blocks;
}

}  // namespace unisono::data
