#include "stratified/item_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr int kTag = 83;

}  // namespace

/// One pass. Threads take blocks in the order of the diagonals, and of the rows on each, so that the first unfinished
/// block never waits for a later one. The first thread handles messages between its blocks.
class ItemRing::Pass {
 public:
  Pass(ItemRing& ring, std::int64_t count, MutableView parameters, const Visit& visit, const Clock& clock)
      : ring_(ring),
        first_(ring.diagonal_),
        last_(ring.diagonal_ + count),
        parameters_(parameters),
        visit_(visit),
        clock_(clock),
        made_(static_cast<std::size_t>(ring.rows())),
        sent_(first_),
        arrived_(first_) {
    for (Row& row : made_) row.diagonals = first_;
  }

  void work(int thread) {
    try {
      const std::int64_t blocks = (last_ - first_) * ring_.rows();
      for (std::int64_t block = next_++; block < blocks; block = next_++) {
        const Index row = block % ring_.rows();
        const std::int64_t diagonal = first_ + block / ring_.rows();
        if (!await(row, diagonal, thread)) return;
        visit_(row, diagonal,
               {.rows = parameters_.data(),
                .columns = parameters_.data() + ring_.place_of(ring_.first_row_ + row, diagonal)});
        made_[static_cast<std::size_t>(row)].diagonals.store(diagonal + 1, std::memory_order_release);
        if (thread == 0) see_to_messages();
      }
      if (thread == 0) complete();
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

  double waited() const { return waited_; }

 private:
  struct alignas(kAlignmentBytes) Row {
    std::atomic<std::int64_t> diagonals{0};  ///< number of finished diagonals
  };

  bool is_made(Index row, std::int64_t diagonal) const {
    return made_[static_cast<std::size_t>(row)].diagonals.load(std::memory_order_acquire) > diagonal;
  }

  /// Whether the row's block on the previous diagonal is done, and so is the previous block of the column: that of the
  /// next row, or of another rank.
  bool is_ready(Index row, std::int64_t diagonal) const {
    if (!is_made(row, diagonal - 1)) return false;
    if (row + 1 < ring_.rows()) return is_made(row + 1, diagonal - 1);
    return ring_.is_alone() ? is_made(0, diagonal - 1) : arrived_.load(std::memory_order_acquire) >= diagonal;
  }

  /// Waits until the block is ready. \return false if another thread failed
  bool await(Index row, std::int64_t diagonal, int thread) {
    if (is_ready(row, diagonal)) return true;
    const Stopwatch watch(clock_);
    for (Idle idle(Idle::kSpinsOfMeetings); !is_ready(row, diagonal); idle.pause()) {
      if (failed_) return false;
      if (thread == 0) see_to_messages();
      if (thread == 0) wait_for_message([&] { return is_ready(row, diagonal); });
    }
    if (thread == 0 && row + 1 == ring_.rows() && !ring_.is_alone()) waited_ += watch.seconds();
    return true;
  }

  /// Starts and completes messages without waiting: sends of all columns that are done here, and at most one receive.
  void see_to_messages() {
    if (ring_.is_alone()) return;
    while (!sending_.empty() && sending_.front()->test()) end_send();
    while (may_send()) {
      const std::span<float> column = column_at(ring_.first_row_, next_to_send());
      sending_.push_back(ring_.communicator_.start_send(std::as_bytes(column), before(), kTag));
      ring_.sent_bytes_ += static_cast<std::int64_t>(column.size_bytes());
    }
    if (receiving_ && receiving_->test()) end_receive();
    // The next column is received into the slot of a column that has been sent.
    const std::int64_t next = arrived_ + 1;
    if (!receiving_ && next <= last_ && next <= sent_ + 2) {
      receiving_ = ring_.communicator_.start_receive(std::as_writable_bytes(column_at(ring_.last_row_ - 1, next)),
                                                     behind(), kTag);
    }
  }

  /// Waits until the next message is done (the receive or, if there is no free slot for it, the send that frees one),
  /// or enough() is true, or there is a column to send. Waiting only for the message could deadlock: the peer may wait
  /// for a column that this rank has finished, or could finish, meanwhile.
  void wait_for_message(const std::function<bool()>& enough) {
    const auto interrupted = [&] { return failed_ || enough() || may_send(); };
    if (receiving_) {
      if (receiving_->wait_unless(interrupted)) end_receive();
    } else if (!sending_.empty()) {
      if (sending_.front()->wait_unless(interrupted)) end_send();
    }
  }

  std::int64_t next_to_send() const { return sent_ + std::ssize(sending_); }
  bool may_send() const { return next_to_send() < last_ && is_made(0, next_to_send()); }

  void end_send() {
    sending_.front()->wait();
    sending_.pop_front();
    ++sent_;
  }

  void end_receive() {
    receiving_->wait();
    receiving_.reset();
    arrived_.fetch_add(1, std::memory_order_release);
  }

  void complete() {
    const Stopwatch watch(clock_);
    for (Idle idle(Idle::kSpinsOfMeetings); !ring_.is_alone() && (sent_ < last_ || arrived_ < last_); idle.pause()) {
      if (failed_) return;
      see_to_messages();
      wait_for_message([] { return false; });
    }
    waited_ += watch.seconds();
  }

  /// The column that a row of the grid meets on a diagonal.
  std::span<float> column_at(Index row, std::int64_t diagonal) const {
    return parameters_.subspan(static_cast<std::size_t>(ring_.place_of(row, diagonal)),
                               static_cast<std::size_t>(ring_.column_floats(ring_.column_of(row, diagonal))));
  }

  int before() const {
    return (ring_.communicator_.rank() + ring_.communicator_.size() - 1) % ring_.communicator_.size();
  }
  int behind() const { return (ring_.communicator_.rank() + 1) % ring_.communicator_.size(); }

  ItemRing& ring_;
  const std::int64_t first_, last_;
  MutableView parameters_;
  const Visit& visit_;
  const Clock& clock_;
  std::vector<Row> made_;
  std::atomic<std::int64_t> next_{0};  ///< the next block to take
  std::atomic<bool> failed_{false};
  // The first thread's
  std::deque<comm::RequestPtr> sending_;
  comm::RequestPtr receiving_;
  std::int64_t sent_;                  ///< columns of all diagonals before this one have been sent
  std::atomic<std::int64_t> arrived_;  ///< columns of all diagonals up to this one have arrived
  double waited_ = 0;
};

ItemRing::ItemRing(const models::Model& model, const data::DatasetInfo& data, comm::Communicator& communicator)
    : model_(*model.in_place()->bipartite()),
      layout_(model.layout()),
      user_space_(model.in_place()->row_spaces().at(0)),
      item_space_(model.in_place()->row_spaces().at(1)),
      users_{.things = user_space_.rows, .parts = data.grid},
      items_{.things = item_space_.rows, .parts = data.grid},
      communicator_(communicator),
      squares_(communicator) {
  const auto [first, last] = comm::slice_of(data.grid, communicator.rank(), communicator.size());
  first_row_ = first;
  last_row_ = last;
  for (Index row = first_row_; row < last_row_; ++row) user_rows_ += users_.size(row);
  if (communicator.size() <= data.grid) return;
  throw ConfigError(
      fmt::format("strategy.kind = \"stratified\": {} ranks are too many, because the grid of these ratings has {} "
                  "rows; use at most {} ranks",
                  communicator.size(), data.grid, data.grid));
}

Index ItemRing::size() const {
  return user_rows_ * user_space_.stride + places() * items_.largest() * item_space_.stride;
}

Index ItemRing::place_of(std::int64_t row, std::int64_t diagonal) const {
  const Index place = (row + diagonal) % places();
  return user_rows_ * user_space_.stride + place * items_.largest() * item_space_.stride;
}

template <typename See>
void ItemRing::for_each_block(std::size_t space, See see) const {
  const models::RowSpace& rows = space == 0 ? user_space_ : item_space_;
  for (std::size_t block = 0; block < layout_.blocks().size(); ++block) {
    const Index in_row = layout_.blocks()[block].offset - rows.offset;
    if (in_row >= 0 && in_row < rows.stride) see(block, in_row);
  }
}

template <typename See>
void ItemRing::for_each_part(int rank, See see) const {
  const auto [first, last] = comm::slice_of(users_.parts, rank, communicator_.size());
  for (Index row = first; row < last; ++row) {
    const Index column = column_of(row, diagonal_);
    see(0, models::RowSeries{.first = row, .step = users_.parts, .count = users_.size(row)}, row);
    see(1, models::RowSeries{.first = column, .step = items_.parts, .count = items_.size(column)}, row);
  }
}

template <typename See>
void ItemRing::for_each_own_part(See see) const {
  Index users_before = 0;
  for_each_part(communicator_.rank(), [&](std::size_t space, models::RowSeries series, Index row) {
    see(space, series, space == 0 ? users_before * user_space_.stride : place_of(row, diagonal_));
    if (space == 0) users_before += series.count;
  });
}

ShardMap ItemRing::map() const {
  std::vector<std::vector<Shard>> shards(static_cast<std::size_t>(communicator_.size()));
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    for_each_part(rank, [&](std::size_t space, models::RowSeries series, Index) {
      for_each_block(space, [&](std::size_t block, Index) {
        Box box = whole_box(layout_.blocks()[block]);
        box.front() = {.first = series.first, .count = series.count, .step = series.step};
        shards[static_cast<std::size_t>(rank)].push_back({.block = block, .box = std::move(box)});
      });
    });
  }
  return {layout_, 1, std::move(shards)};
}

std::vector<Shard> ItemRing::shards() const {
  std::vector<Shard> shards = map().shards_of(communicator_.rank());
  auto next = shards.begin();
  for_each_own_part([&](std::size_t space, models::RowSeries series, Index first) {
    if (series.count == 0) return;  // the map has no shard of it
    for_each_block(space, [&](std::size_t, Index in_row) { (next++)->place.offset = first + in_row; });
  });
  return shards;
}

std::vector<BlockRange> ItemRing::ranges() const {
  std::vector<BlockRange> ranges;
  for_each_own_part([&](std::size_t space, models::RowSeries series, Index first) {
    if (series.count == 0) return;
    const std::size_t begin = ranges.size();
    for_each_block(space, [&](std::size_t block, Index in_row) {
      if (ranges.size() > begin) ranges.back().floats.last = first + in_row;
      const Index end = first + series.count * (space == 0 ? user_space_ : item_space_).stride;
      ranges.push_back({{first + in_row, end}, block});
    });
  });
  std::ranges::sort(ranges, {}, [](const BlockRange& range) { return range.floats.first; });
  return ranges;
}

double ItemRing::pass(std::int64_t count, MutableView parameters, ThreadTeam& team, const Visit& visit,
                      const Clock& clock) {
  Pass pass(*this, count, parameters, visit, clock);
  team.run([&](int thread) { pass.work(thread); });
  diagonal_ += count;
  return pass.waited();
}

/// Evaluates during one pass over all diagonals; the split's batches are these diagonals, from the first one on.
void ItemRing::evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) {
  const Index side = items_.parts;
  std::vector<std::vector<data::ExampleRange>> blocks;
  data::SparseEntries entries;
  while (const auto batch = source.next()) {
    blocks.emplace_back(batch->ranges.begin(), batch->ranges.end());
    entries = std::get<data::SparseEntries>(*batch->set);
  }
  ThreadTeam team(1);
  pass(side, parameters, team, [&](Index row, std::int64_t diagonal, const models::TableParts& parts) {
    const data::ExampleRange block = blocks[static_cast<std::size_t>(diagonal % side)][static_cast<std::size_t>(row)];
    model_.evaluate_part(entries.subspan(static_cast<std::size_t>(block.first), static_cast<std::size_t>(block.size())),
                         parts, sums);
  });
}

}  // namespace unisono::strategies
