#include "stream/streaming_feed.hpp"

#include <algorithm>
#include <cassert>
#include <set>

namespace unisono::data {
namespace {

constexpr std::int64_t kMostAhead =
    1 << 16;  // micro-batches; a limit of its own, because a rank without examples never exhausts the memory budget

/// Thrown to end waits when the reader is stopped.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "the reader of examples was stopped"; }
};

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

std::uint64_t draw_seed(RandomStream random) {
  const std::uint64_t high = random.bits();
  return (high << 32) | random.bits();
}

/// Index of the last start ≤ x.
std::int64_t segment_of(const std::vector<std::int64_t>& starts, std::int64_t x) {
  return std::upper_bound(starts.begin(), starts.end(), x) - starts.begin() - 1;
}

}  // namespace

LoadedCell::LoadedCell(const hdf5::File& file, const GroupSchema& group, const LaneOrder& order, const Cell& cell,
                       std::int64_t bytes, bool shuffle)
    : cell_(cell), bytes_(bytes), shuffle_(shuffle), order_(order.shuffle_of(cell)) {
  std::int64_t start = 0;
  for (const Range& rows : order.file_rows(cell)) {
    starts_.push_back(start);
    parts_.emplace_back(file, group, rows);
    start += rows.size();
  }
}

RawExample LoadedCell::example(std::int64_t place) const {
  const auto row = shuffle_ ? static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(place))) : place;
  const auto part = std::upper_bound(starts_.begin(), starts_.end(), row) - starts_.begin() - 1;
  const RowBlock& block = parts_[static_cast<std::size_t>(part)].block;
  return block.example(block.rows().first + row - starts_[static_cast<std::size_t>(part)]);
}

std::int64_t LoadedCell::bytes(const hdf5::File& file, const GroupSchema& group, const LaneOrder& order,
                               const Cell& cell) {
  if (!group.pictures) return cell.rows.size() * group.bytes_per_example();
  std::size_t bytes = 0;
  for (const Range& rows : order.file_rows(cell))
    bytes += RowBlock::bytes(group, rows, feature_range(file, group, rows));
  return static_cast<std::int64_t>(bytes);
}

CellReader::CellReader(const hdf5::File& file, const GroupSchema& group, const LaneSettings& settings,
                       const Schedule& schedule, std::int64_t budget_bytes)
    : file_(file), group_(group), settings_(settings), schedule_(schedule), orders_(settings), budget_(budget_bytes) {}

CellReader::~CellReader() { stop(); }

void CellReader::start(const DataCursor& cursor) {
  stop();
  schedule_.seek(cursor);
  newest_.assign(static_cast<std::size_t>(settings_.shape.lanes), {-1, -1});
  ready_.clear();
  held_ = ahead_ = 0;
  stopped_ = false;
  wanted_.reset();
  error_ = nullptr;
  thread_.start([this] { run(); });
}

void CellReader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CellReader::run() {
  try {
    for (;; schedule_.advance()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || ahead_ < kMostAhead; });
      if (stopped_) return;
      ++ahead_;
      lock.unlock();
      read_for(schedule_.current());
    }
  } catch (const Stopped&) {
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

void CellReader::read_for(const MicroBatch& batch) {
  const LaneOrder& order = orders_.of(batch.epoch);
  for (const LaneShare& part : order.parts(batch)) {
    for (std::int64_t position = part.positions.first; position < part.positions.last;) {
      const Cell cell = order.cell_at(part.lane, position);
      auto& newest = newest_[static_cast<std::size_t>(part.lane)];
      if (newest < std::pair(batch.epoch, cell.group)) load(order, {batch.epoch, cell.lane, cell.group}, cell);
      newest = {batch.epoch, cell.group};
      position += cell.rows.last - order.virtual_row(part.lane, position);
    }
  }
}

void CellReader::load(const LaneOrder& order, const Key& key, const Cell& cell) {
  const std::int64_t bytes = LoadedCell::bytes(file_, group_, order, cell);
  {
    std::unique_lock lock(mutex_);
    // A cell for which `take` waits is read even beyond the budget.
    changed_.wait(lock, [&] { return stopped_ || wanted_ == key || held_ == 0 || held_ + bytes <= budget_; });
    if (stopped_) throw Stopped();
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    read_ += bytes;
  }
  auto loaded = std::make_unique<LoadedCell>(file_, group_, order, cell, bytes, settings_.shuffle);
  const std::lock_guard lock(mutex_);
  ready_.emplace(key, std::move(loaded));
  changed_.notify_all();
}

std::unique_ptr<LoadedCell> CellReader::take(const Key& key) {
  std::unique_lock lock(mutex_);
  auto found = ready_.find(key);
  while (found == ready_.end()) {
    if (error_) std::rethrow_exception(error_);
    if (stopped_) throw Stopped();
    wanted_ = key;
    changed_.notify_all();
    changed_.wait(lock);
    found = ready_.find(key);
  }
  wanted_.reset();
  auto cell = std::move(found->second);
  ready_.erase(found);
  return cell;
}

void CellReader::release(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  changed_.notify_all();
}

void CellReader::note_done() {
  const std::lock_guard lock(mutex_);
  --ahead_;
  changed_.notify_all();
}

std::int64_t CellReader::bytes_read() const {
  const std::lock_guard lock(mutex_);
  return read_;
}

std::int64_t CellReader::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

StreamingFeed::StreamingFeed(const hdf5::File& file, const GroupSchema& group, LaneSettings settings,
                             const Schedule& schedule, std::int64_t window_bytes)
    : settings_(std::move(settings)), orders_(settings_), open_(static_cast<std::size_t>(settings_.shape.lanes)) {
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
  for (const auto& cell : retired_) bytes += cell->bytes();
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

void StreamingFeed::take(const LaneOrder& order, const MicroBatch& batch, std::vector<RawExample>& examples) {
  examples.clear();
  for (const LaneShare& part : order.parts(batch)) take_from(order, part, examples);
}

/// Takes all examples of a step that are used, as they are or in mixtures.
void StreamingFeed::take_step(const LaneOrder& order, const MicroBatch& batch) {
  take(order, batch, taken_);
  step_.resize(static_cast<std::size_t>(batch.step_places.size()));
  auto next = taken_.begin();
  for (const Range& places : order.taken_places(batch)) {
    std::copy_n(next, places.size(), step_.begin() + places.first);
    next += places.size();
  }
}

void StreamingFeed::gather(const MicroBatch& batch, GatheredExamples& gathered) {
  if (!settings_.mixes || batch.first_of_step) free_retired();
  if (batch.epoch != epoch_) {
    for (auto& cell : open_) retire(cell);  // open cells may have unused examples
    epoch_ = batch.epoch;
  }
  const LaneOrder& order = orders_.of(epoch_);
  if (settings_.mixes) {
    if (batch.first_of_step) take_step(order, batch);
    gathered.examples.assign(step_.begin() + batch.places.first, step_.begin() + batch.places.last);
    const auto partner = [&](std::int64_t place) {
      return partner_of(place, order.group_of(place, batch.step_places.size()), batch, settings_.seed);
    };
    const auto example = [&](std::int64_t place) { return step_[static_cast<std::size_t>(place)]; };
    gather_with_partners(batch, partner, example, gathered);
  } else {
    take(order, batch, gathered.examples);
  }
  reader_->note_done();
}

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
  for (std::int64_t lane = 0; lane < settings.shape.lanes; ++lane) {
    starts_.push_back(starts_.back() + (settings.steps - 1) * taken(lane, settings.batch) +
                      taken(lane, settings.last_batch));
  }
  // The last examples of an order may be left out.
  assert(starts_.back() <= settings.examples && block_starts_.back() == settings.examples);
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

Range LaneOrder::group_of(std::int64_t place, std::int64_t size) const {
  const std::int64_t groups = std::max<std::int64_t>(1, std::min(settings_.shape.lanes, size) / 2);
  const std::int64_t group = place * groups / size;
  return {divide_up(group * size, groups), divide_up((group + 1) * size, groups)};
}

std::vector<Range> LaneOrder::taken_places(const MicroBatch& batch) const {
  if (!settings_.mixes) return {batch.places};
  std::vector<Range> taken;
  if (!batch.first_of_step) return taken;
  for (const Range& own : batch.rank_places) {
    for (std::int64_t place = own.first; place < own.last;) {
      const Range group = group_of(place, batch.step_places.size());
      if (taken.empty() || taken.back().last <= group.first) taken.push_back(group);
      place = group.last;
    }
  }
  return taken;
}

void LaneOrder::add_parts(const MicroBatch& batch, Range places, std::vector<LaneShare>& parts) const {
  const std::int64_t size = batch.step_places.size(), step = batch.step_places.first / settings_.batch;
  for (std::int64_t place = places.first; place < places.last;) {
    const std::int64_t lane = place * settings_.shape.lanes / size;
    const std::int64_t first = first_place(lane, size), last = std::min(first_place(lane + 1, size), places.last);
    const std::int64_t before = step * taken(lane, settings_.batch);  // by the previous steps, which were full
    parts.push_back({lane, {before + place - first, before + last - first}});
    place = last;
  }
}

std::vector<LaneShare> LaneOrder::parts(const MicroBatch& batch) const {
  std::vector<LaneShare> parts;
  for (const Range& places : taken_places(batch)) add_parts(batch, places, parts);
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

std::vector<Range> blocks_of(const FileRows& rows, Range positions, std::int64_t block_rows) {
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
