#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dense/rows.hpp"
#include "order/schedule.hpp"
#include "source/batch_sources.hpp"
#include "unisono/base/threads.hpp"

// Reads a streamed set ahead of its use; LaneOrder explains lanes and cells.
namespace unisono::data {

// The order of examples of a set that is too large for memory.
//
//   A set is read in blocks of rows. An epoch permutes the blocks and concatenates their rows: the virtual rows. These
//   are cut into V consecutive lanes, and place i of a step that takes b places belongs to lane ⌊i V / b⌋: each lane
//   gives every step a few examples, from its beginning to its end. So a rank whose slice is 1/P of the places reads
//   the blocks of about V/P lanes, and no others, and all ranks together take what one rank would take.
//
//   Inside a lane the rows of each G consecutive blocks, a cell, are shuffled. So the shuffle window is the V cells in
//   use at a time: a step has examples of all of them. The next V cells are read meanwhile, so the window's memory is
//   that of 2V cells.
//
// An order is a function of (seed, epoch), the set, the batch size and the window's size, not of the number of ranks.
//
// Where examples are mixed, the places of a step form ⌊V/2⌋ groups, as equal as possible, and at most as many as give
// each two places: an example's partner is one of the same group, which are those of about two neighbouring lanes. So a
// rank takes whole groups, and needs the blocks of at most about two lanes more at either end of its slice.

/// The number of lanes and the size of cells.
struct LaneShape {
  std::int64_t lanes = 1, group_blocks = 1;  ///< V and G
};

/// Chooses as many lanes as fit into the window, at most one for each place of a batch, and then the largest cells that
/// fit. \param window_bytes memory for 2V cells
LaneShape choose_lanes(std::int64_t window_bytes, std::int64_t block_bytes, std::int64_t blocks, std::int64_t batch);

/// Consecutive virtual rows of a lane whose examples are shuffled among each other.
struct Cell {
  std::int64_t lane = 0, group = 0;
  Range rows;
  bool operator==(const Cell&) const = default;
};

/// The positions of a lane that a rank's slice takes.
struct LaneShare {
  std::int64_t lane = 0;
  Range positions;
};

/// What the orders of all epochs have in common.
struct LaneSettings {
  std::vector<Range> blocks;    ///< rows of the file
  std::int64_t examples = 0;    ///< in all blocks
  std::int64_t batch = 1;       ///< places that a step takes, but the last one
  std::int64_t steps = 1;       ///< in which this order has examples
  std::int64_t last_batch = 1;  ///< places that the last of them takes
  LaneShape shape;
  bool shuffle = true;
  bool mixes = false;  ///< whether examples are mixed with others
  std::uint64_t seed = 0;
  std::uint32_t number = 0;  ///< number of the order, if each rank has its own; else 0
};

/// The order of one epoch.
class LaneOrder {
 public:
  /// \param settings must outlive it
  LaneOrder(const LaneSettings& settings, std::int64_t epoch);

  /// The places of a step that are mixed with each other, and with this one. \param size places of the step
  Range group_of(std::int64_t place, std::int64_t size) const;
  /// The places whose examples a rank takes for a micro-batch: its slice; where examples are mixed, the groups of all
  /// its slices of the step for the first micro-batch, and none for the others.
  std::vector<Range> taken_places(const MicroBatch& batch) const;
  /// From which lanes they are taken, in the order of these places.
  std::vector<LaneShare> parts(const MicroBatch& batch) const;
  /// The cell that contains a position of a lane.
  Cell cell_at(std::int64_t lane, std::int64_t position) const;
  /// The virtual row of a position of a lane, before the cell is shuffled.
  std::int64_t virtual_row(std::int64_t lane, std::int64_t position) const { return starts_[at(lane)] + position; }
  /// The rows of the file that a cell consists of, in virtual order.
  std::vector<Range> file_rows(const Cell& cell) const;
  /// How a cell is shuffled: place in the cell → row of it.
  KeyedPermutation shuffle_of(const Cell& cell) const;

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t first_place(std::int64_t lane, std::int64_t step_size) const;
  std::int64_t taken(std::int64_t lane, std::int64_t step_size) const;  ///< examples that a step takes from a lane
  void add_parts(const MicroBatch& batch, Range places, std::vector<LaneShare>& parts) const;
  const Range& block(std::int64_t place) const;

  const LaneSettings& settings_;
  KeyedPermutation block_order_;
  std::uint64_t cell_seed_;
  std::vector<std::int64_t> block_starts_;  ///< [blocks + 1] virtual rows, in permuted order
  std::vector<std::int64_t> starts_;        ///< [lanes + 1] virtual rows
};

/// Caches the order of the epoch that was requested last.
class LaneOrders {
 public:
  explicit LaneOrders(const LaneSettings& settings) : settings_(settings) {}
  const LaneOrder& of(std::int64_t epoch);

 private:
  const LaneSettings& settings_;
  std::int64_t epoch_ = -1;
  std::unique_ptr<LaneOrder> order_;
};

/// The rows at these positions of a split, as ranges that do not cross multiples of `block_rows` rows in the file.
std::vector<Range> blocks_of(const FileRows& rows, Range positions, std::int64_t block_rows);

/// The examples of one cell, read into memory.
class LoadedCell {
 public:
  /// \param bytes of this cell, as the function says
  LoadedCell(const hdf5::File& file, const GroupSchema& group, const LaneOrder& order, const Cell& cell,
             std::int64_t bytes, bool shuffle);

  const Cell& cell() const { return cell_; }
  /// \param place number in the cell's shuffled order
  RawExample example(std::int64_t place) const;
  std::int64_t bytes() const { return bytes_; }  ///< memory that it takes
  /// Memory that a cell takes.
  static std::int64_t bytes(const hdf5::File& file, const GroupSchema& group, const LaneOrder& order, const Cell& cell);

 private:
  Cell cell_;
  std::int64_t bytes_;
  bool shuffle_;
  KeyedPermutation order_;
  std::vector<OwnedBlock> parts_;
  std::vector<std::int64_t> starts_;  ///< of the parts, in the cell
};

/// A thread that reads cells ahead, in the order in which a rank's schedule needs them, as far as its memory budget
/// allows.
class CellReader {
 public:
  struct Key {
    std::int64_t epoch, lane, group;
    auto operator<=>(const Key&) const = default;
  };

  /// \param budget_bytes for cells that are read and not yet released
  CellReader(const hdf5::File& file, const GroupSchema& group, const LaneSettings& settings, const Schedule& schedule,
             std::int64_t budget_bytes);
  ~CellReader();

  /// Starts reading with the cells of this step.
  void start(const DataCursor& cursor);
  /// Ends the thread, and makes a `take` that waits throw. May be called by another thread than `take`.
  void stop();

  /// Waits until a cell is read and returns it. Each cell is taken once, in the schedule's order.
  /// \throws the DataError that reading it threw
  std::unique_ptr<LoadedCell> take(const Key& key);
  /// Returns so many bytes of taken cells to the budget.
  void release(std::int64_t bytes);
  /// Called after each micro-batch, so that the thread may read further ahead.
  void note_done();

  std::int64_t bytes_read() const;
  std::int64_t peak_bytes() const;

 private:
  void run();
  void read_for(const MicroBatch& batch);
  void load(const LaneOrder& order, const Key& key, const Cell& cell);

  const hdf5::File& file_;
  const GroupSchema& group_;
  const LaneSettings& settings_;
  Schedule schedule_;
  LaneOrders orders_;
  std::int64_t budget_;
  std::vector<std::pair<std::int64_t, std::int64_t>> newest_;  ///< by lane: (epoch, group) of the last cell read

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::unique_ptr<LoadedCell>> ready_;
  std::int64_t held_ = 0, peak_ = 0, read_ = 0, ahead_ = 0;
  bool stopped_ = true;
  std::optional<Key> wanted_;  ///< the cell for which `take` waits
  std::exception_ptr error_;
  Threads thread_{"reading ahead"};
};

/// Fetches examples from the file, in the order that LaneOrder describes.
class StreamingFeed final : public Feed {
 public:
  /// \param window_bytes in total, over all ranks that share this order
  StreamingFeed(const hdf5::File& file, const GroupSchema& group, LaneSettings settings, const Schedule& schedule,
                std::int64_t window_bytes);

  void gather(const MicroBatch& batch, GatheredExamples& gathered) override;
  void seek(const DataCursor& cursor) override;
  void interrupt() override { reader_->stop(); }

  const CellReader& reader() const { return *reader_; }

 private:
  void free_retired();
  void retire(std::unique_ptr<LoadedCell>& cell);
  void take(const LaneOrder& order, const MicroBatch& batch, std::vector<RawExample>& examples);
  void take_from(const LaneOrder& order, const LaneShare& part, std::vector<RawExample>& examples);
  void take_step(const LaneOrder& order, const MicroBatch& batch);

  LaneSettings settings_;
  LaneOrders orders_;
  std::int64_t epoch_ = -1;
  std::vector<std::unique_ptr<LoadedCell>> open_;     ///< by lane
  std::vector<std::unique_ptr<LoadedCell>> retired_;  ///< used up; the last examples may still point into them
  std::vector<RawExample> taken_, step_;              ///< where examples are mixed: those of a step; by their places
  std::unique_ptr<CellReader> reader_;
};

}  // namespace unisono::data
