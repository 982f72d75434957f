#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/wire.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::strategies {

/// The part of a vector of θ's size that lies in a shard.
template <typename Vector>
Vector slice(Vector whole, comm::Slice place) {
  return whole.subspan(static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.last - place.first));
}

/// Where θ may be cut into shards.
enum class Cut {
  lines,   ///< between any two cache lines
  blocks,  ///< only between blocks, for update rules with norms of whole blocks (LARS, LAMB)
};

/// Cuts θ into `shards` consecutive parts of about equal size; some may be empty.
std::vector<comm::Slice> cut_into_shards(const ParameterLayout& layout, int shards, Cut cut);
/// Cuts θ into `shards` consecutive parts of about equal size, but never inside a row of these spaces.
std::vector<comm::Slice> cut_between_rows(Index floats, const std::vector<models::RowSpace>& spaces, int shards);

/// What the server of a shard holds of θ, and of each vector of its optimizer. Its norms take no other server: update
/// rules with norms get whole blocks (Cut::blocks).
std::unique_ptr<const Holding> served_holding(const ParameterLayout& layout, comm::Slice shard);

/// The rows of θ that lie in a shard, numbered from 0 through all spaces, and the segments that belong to no row.
class RowsInShard {
 public:
  RowsInShard(Index floats, const std::vector<models::RowSpace>& spaces, comm::Slice shard);

  std::int64_t count() const { return count_; }
  /// Appends the numbers of the touched rows, ascending, to `rows`, and resets their marks.
  void take_touched(models::TouchedRows& touched, std::vector<std::uint32_t>& rows) const;
  /// Floats of these rows and of all segments that belong to no row.
  Index floats_of(std::span<const std::uint32_t> rows) const;
  /// Calls visit(offset in θ, floats) for each of these rows, and then for each segment that belongs to no row.
  template <typename Visit>
  void for_each(std::span<const std::uint32_t> rows, Visit visit) const {
    auto part = parts_.begin();
    for (const std::uint32_t row : rows) {
      while (row >= part->number + part->rows) ++part;
      visit(part->offset + (row - part->number) * part->stride, part->stride);
    }
    for (const comm::Slice& segment : rest_) visit(segment.first, segment.last - segment.first);
  }

 private:
  /// The rows of one space that lie in the shard.
  struct RowSegment {
    std::size_t space;
    Index first, rows;    ///< of the space
    std::int64_t number;  ///< of the first one in the shard
    Index offset, stride;
  };
  std::vector<RowSegment> parts_;
  std::vector<comm::Slice> rest_;
  std::int64_t count_ = 0;
};

/// One worker's push, as the shard sees it.
struct Push {
  const Question* question;
  MutableView values;                        ///< a gradient, or changes of θ; the shard may overwrite them
  View statistics = {};                      ///< the worker's running statistics after its step
  std::span<const std::uint32_t> rows = {};  ///< which rows the values are of, if the shard serves rows
  View read = {};                            ///< the shard's values on which the push was computed, if they were kept
  std::int64_t staleness = 0;                ///< updates of the shard since those values were read
};

/// Reuses buffers that nobody holds any more.
class BufferPool {
 public:
  /// \return a buffer of at least so many floats, not initialised
  std::shared_ptr<Buffer> take(Index floats);

 private:
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::size_t next_ = 0;  ///< the place behind the last one that was given out: what lies there is free first
};

/// The part of θ that one server holds, in plain memory, and how pushes update it.
class ServerShard {
 public:
  /// \param memory in which `state` lies; the shard copies its part of it
  ServerShard(comm::Slice place, models::ModelState state, Allocator& memory);
  virtual ~ServerShard() = default;

  comm::Slice place() const { return place_; }
  View values() const { return std::as_const(*values_).view(); }
  std::span<float> statistics() { return statistics_; }
  /// Updates that the shard has had.
  std::int64_t version() const { return version_; }

  /// One worker's push as one update.
  void apply(const Push& push);
  /// The workers' pushes of one step, in the order of workers, as one update.
  void apply_together(std::span<const Push> pushes);

  /// The values of these rows, followed by those that belong to no row; all values if the shard does not serve rows.
  /// They do not change while the pointer is held: an update is then made to a copy (copy on write). The buffer may be
  /// longer.
  virtual std::shared_ptr<const Buffer> read(std::span<const std::uint32_t>) { return values_; }
  /// How many floats `read` gives for these rows.
  virtual Index floats_of(std::span<const std::uint32_t>) const { return values_->size(); }
  /// The shard's optimizer, for checkpoints; null if it has none.
  virtual optim::Optimizer* optimizer() { return nullptr; }

 protected:
  MutableView mutable_values();
  /// Applies a push to the values.
  virtual void update(const Push& push) = 0;
  virtual void update_together(std::span<const Push> pushes) = 0;

 private:
  void take_statistics(const Push& push);
  bool unmoved_by(std::span<const Push> pushes, std::size_t i) const;

  comm::Slice place_;
  BufferPool pool_;  ///< for the values and their copies
  std::shared_ptr<Buffer> values_;
  std::vector<float> statistics_;
  std::int64_t version_ = 0;
};

/// How stale gradients are corrected.
struct StaleGradients {
  bool divide_rate = false;       ///< rate / max(1, staleness): Zhang, Gupta, Lian & Liu, IJCAI 2016
  double delay_compensation = 0;  ///< λ in g + λ g ⊙ g ⊙ (θ − θ_read): Zheng et al., ICML 2017
};

/// θ ← θ − rate · direction(g), by the optimizer; its vectors must lie in plain memory. \param holding for which the
/// optimizer was made; see served_holding
std::unique_ptr<ServerShard> make_gradient_shard(std::unique_ptr<const Holding> holding,
                                                 std::unique_ptr<optim::Optimizer> optimizer, comm::Slice place,
                                                 models::ModelState state, StaleGradients stale,
                                                 Allocator& memory = plain_allocator());

/// θ ← θ + the pushed values.
std::unique_ptr<ServerShard> make_sum_shard(comm::Slice place, models::ModelState state,
                                            Allocator& memory = plain_allocator());

/// θ_row ← θ_row + change for the pushed rows. With only one worker (`alone`), pushes contain the rows themselves,
/// which replace θ_row.
std::unique_ptr<ServerShard> make_row_shard(RowsInShard rows, comm::Slice place, models::ModelState state, bool alone);

}  // namespace unisono::strategies
