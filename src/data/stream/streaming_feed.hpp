#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "dense/rows.hpp"
#include "source/feed.hpp"
#include "stream/lane_order.hpp"
#include "unisono/base/threads.hpp"

// Reads a streamed set ahead of its use; lane_order.hpp explains lanes and cells.

namespace unisono::data {

/// The examples of one cell, read into memory.
class LoadedCell {
 public:
  LoadedCell(const hdf5::File& file, const GroupSchema& group, const LaneOrder& order, const Cell& cell, bool shuffle);

  const Cell& cell() const { return cell_; }
  /// \param place number in the cell's shuffled order
  RawExample example(std::int64_t place) const;
  /// Memory that a cell takes.
  static std::int64_t bytes(const GroupSchema& group, const Cell& cell);

 private:
  Cell cell_;
  bool shuffle_;
  KeyedPermutation order_;
  std::vector<OwnedRows> parts_;
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
