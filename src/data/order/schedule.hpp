#pragma once

#include <cstdint>

#include "order/slice.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// A rank's slice of a micro-batch, as places in an epoch's order of examples.
struct MicroBatch {
  std::int64_t epoch = 0, step = 0;
  Range step_places;  ///< places of the order that this step takes
  Range places;       ///< this rank's slice of this micro-batch, counted from step_places.first
  Index micro_batch_size = 0, global_size = 0, rank_step_size = 0;
  Index number = 0, count = 1;  ///< of the step's micro-batches
  Index own = 1;                ///< how many of them this rank has, or 1 where it has none
  bool whole = false;           ///< no other rank has examples of this micro-batch
  bool last_of_step = true, last_of_epoch = false;
};

/// Says which places of an epoch's order a rank takes, micro-batch after micro-batch.
///   global: all ranks have one order of n examples. Step s takes the places [s·B, (s+1)·B), the last step what is
///           left. Ranks and micro-batches share them as MicroBatchSharing says, each cut by part_of. A step that has
///           fewer examples than `micro_batches` has fewer of these. A rank without any has an empty one.
///   fixed:  rank r has an order of its own, of its part of the n examples, and takes its part of B at each step, cut
///           into micro-batches. All ranks make the steps that the slowest needs, and as many micro-batches in each; a
///           rank that is through has none in the last ones.
class Schedule {
 public:
  /// \throws ConfigError where fixed parts of the batch would be empty
  Schedule(std::int64_t examples, const SourceOptions& options, bool fixed);

  std::int64_t steps_per_epoch() const { return steps_; }
  std::int64_t examples() const { return examples_; }
  /// The examples that this rank's order permutes: its fixed part, or all of them for a global order.
  Range share() const { return share_; }
  /// How many places of its order a full step takes.
  std::int64_t order_batch() const { return order_batch_; }
  /// The most examples that a micro-batch of this rank can have.
  Index largest_slice() const;

  MicroBatch current() const;
  void advance();
  /// To the first micro-batch of a step.
  void seek(const DataCursor& cursor);

 private:
  Range step_places(int rank, std::int64_t step) const;  ///< of that rank's order
  bool is_shared(MicroBatchSharing sharing) const { return !fixed_ && options_.sharing == sharing; }
  Index micro_batches() const;
  Range own_numbers() const;
  Range places_of(int rank, Index number) const;

  std::int64_t examples_;
  SourceOptions options_;
  bool fixed_;
  Range share_;
  std::int64_t order_batch_ = 0, steps_ = 0;
  std::int64_t epoch_ = 0, step_ = 0;
  Index micro_ = 0;  ///< number of this rank's current micro-batch in the step
};

}  // namespace unisono::data
