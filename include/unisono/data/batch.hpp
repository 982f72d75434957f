#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "unisono/tensor/features.hpp"
#include "unisono/tensor/sparse.hpp"

namespace unisono::data {

/// The shape of one example's features: [channels, height, width]; a row of a table has height = width = 1.
struct FeatureShape {
  Index channels = 1, height = 1, width = 1;
  Index size() const { return channels * height * width; }
  bool operator==(const FeatureShape&) const = default;
};

/// Rows of a sparse matrix, and what is to be predicted of each.
struct LabelledRows {
  SparseRows rows;
  View answers;       ///< [rows]: class numbers, or targets; empty: none
  View weights = {};  ///< [rows] of their losses in training; empty: all are 1
};

using SparseEntries = std::span<const SparseEntry>;

/// A whole split of a set that is no table of dense features: rows; ratings or co-occurrences; text.
using ExampleSet = std::variant<LabelledRows, SparseEntries, Text>;

/// Rows, entries or sentences [first, last) of such a set.
struct ExampleRange {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
  bool operator==(const ExampleRange&) const = default;
};

/// This rank's part of a micro-batch: B examples, in canonical order, normalised and augmented; or their numbers, where
/// a device keeps the features and does that itself. The memory belongs to the source and stays valid until its next
/// batch is asked for. B may be 0: such a rank takes part in collectives all the same.
///
/// Examples of a set that is no table are not copied: such a batch names ranges of the set, and has neither `examples`
/// nor features, labels and targets. An example of a text is a word, of which its sentences have so many.
struct Batch {
  Index size = 0;              ///< B
  Index micro_batch_size = 0;  ///< examples of this micro-batch on all ranks that share it
  Index global_size = 0;       ///< examples of the step: all its micro-batches on all ranks
  Index rank_step_size = 0;    ///< examples of the step on this rank: all its micro-batches
  std::int64_t epoch = 0;
  std::int64_t epoch_examples_before = 0;    ///< of the epoch, on all ranks, in the steps before this one
  Index micro_batch = 0, micro_batches = 1;  ///< its number in the step, and how many there are
  /// No other rank has examples of this micro-batch, so that batch statistics need no other rank's.
  bool whole = false;
  bool last_of_step = true;  ///< this rank's last micro-batch of its step
  bool last_of_epoch = false;
  std::span<const std::uint64_t> examples = {};  ///< [B] indices in the set
  View features = {};                            ///< [B, C, H, W]; empty where a device keeps them
  KeptFeatures* kept = nullptr;                  ///< the device's, of which `examples` says which; null: none
  std::span<const Movement> movements = {};      ///< [B] of such examples; empty: they stay as they are
  std::span<const std::int32_t> labels = {};     ///< [B], or empty
  View targets = {};                             ///< [B, T], or empty
  View weights = {};                             ///< [B] of the examples' losses in training; empty: all are 1
  const ExampleSet* set = nullptr;               ///< null: a table of dense features
  std::span<const ExampleRange> ranges = {};     ///< of the set, to be visited in this order
};

/// Where a run stands in its data.
struct DataCursor {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< within the epoch
};

/// Yields batch after batch, epoch after epoch, without end; prefetches.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// \throws DataError
  virtual Batch next() = 0;
  virtual std::int64_t steps_per_epoch() const = 0;
  virtual std::int64_t examples_per_epoch() const = 0;  ///< over all ranks
  /// The next batch will be the first of this step.
  virtual void seek(const DataCursor& cursor) = 0;
  /// Seconds that `next` made its caller wait, so far.
  virtual double wait_seconds() const = 0;
};

}  // namespace unisono::data
