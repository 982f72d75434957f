#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/shards.hpp"
#include "server/wire.hpp"
#include "unisono/models/model.hpp"
#include "unisono/optim/optimizer.hpp"

namespace unisono::strategies {

/// What a worker pushed.
struct Push {
  const Question* question;
  MutableView values;                        ///< a gradient, or changes; may be used up
  View statistics = {};                      ///< running ones, after the worker's step
  std::span<const std::uint32_t> rows = {};  ///< that the values are of, where the shard is one of rows
  View read = {};                            ///< the shard's values that the push was computed on, where they are kept
  std::int64_t staleness = 0;                ///< updates that the shard has had since these were read
};

/// Buffers that are used again when nobody holds them any more.
class BufferPool {
 public:
  /// \return of so many floats at least, whatever they are
  std::shared_ptr<Buffer> take(Index floats);

 private:
  std::vector<std::shared_ptr<Buffer>> buffers_;
};

/// A part of θ, and what pushes do to it. In plain memory.
class Shard {
 public:
  /// \param memory that θ and the statistics lie in, of which it takes a copy
  Shard(comm::Slice place, models::ModelState state, Allocator& memory);
  virtual ~Shard() = default;

  comm::Slice place() const { return place_; }
  View values() const { return std::as_const(*values_).view(); }
  std::span<float> statistics() { return statistics_; }
  std::int64_t version() const { return version_; }

  void apply(const Push& push);
  /// The workers' pushes of one step, in the order of workers, as one update.
  void apply_together(std::span<const Push> pushes);

  /// The values of some rows, and of what belongs to none; all values where the shard knows no rows. They stay as they
  /// are for as long as they are held: an update that comes meanwhile is made to a copy. A buffer may be longer.
  virtual std::shared_ptr<const Buffer> read(std::span<const std::uint32_t>) { return values_; }
  virtual Index floats_of(std::span<const std::uint32_t>) const { return values_->size(); }
  /// Its optimizer's, for checkpoints; null where it has none.
  virtual optim::Optimizer* optimizer() { return nullptr; }

 protected:
  MutableView mutable_values();
  /// Makes the values what a push makes of them.
  virtual void update(const Push& push) = 0;
  virtual void update_together(std::span<const Push> pushes) = 0;

 private:
  void take_statistics(const Push& push);
  bool unmoved_by(std::span<const Push> pushes, std::size_t i) const;

  comm::Slice place_;
  BufferPool pool_;  ///< of the values, and copies of them
  std::shared_ptr<Buffer> values_;
  std::vector<float> statistics_;
  std::int64_t version_ = 0;
};

/// What an update rule makes of stale gradients.
struct StaleGradients {
  bool divide_rate = false;       ///< rate / max(1, staleness): Zhang, Gupta, Lian & Liu, IJCAI 2016
  double delay_compensation = 0;  ///< λ in g + λ g ⊙ g ⊙ (θ − θ_read): Zheng et al., ICML 2017
};

/// θ ← θ − rate · direction(g), by the optimizer's rule, whose vectors are in plain memory.
std::unique_ptr<Shard> make_gradient_shard(std::unique_ptr<optim::Optimizer> optimizer, comm::Slice place,
                                           models::ModelState state, StaleGradients stale,
                                           Allocator& memory = plain_allocator());

/// θ ← θ + what is pushed.
std::unique_ptr<Shard> make_sum_shard(comm::Slice place, models::ModelState state,
                                      Allocator& memory = plain_allocator());

/// θ_row ← θ_row + change for pushed rows; where a lone worker pushes, θ_row ← what it has now.
std::unique_ptr<Shard> make_row_shard(ShardRows rows, comm::Slice place, models::ModelState state, bool alone);

}  // namespace unisono::strategies
