#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "unisono/tensor/features.hpp"

namespace unisono::data {

/// The shape of one example's features: [channels, height, width]; a row of a table has height = width = 1.
struct FeatureShape {
  Index channels = 1, height = 1, width = 1;
  Index size() const { return channels * height * width; }
  bool operator==(const FeatureShape&) const = default;
};

/// Rows of a sparse matrix with their labels or targets.
struct LabelledRows {
  SparseRows rows;
  View targets;       ///< [rows]: class numbers, or numbers to predict; empty: none
  View weights = {};  ///< [rows] weights of the rows' losses in training; empty: all are 1
};

using SparseEntries = std::span<const SparseEntry>;

/// A whole split of a set that is not a table of dense features: sparse rows; ratings or co-occurrences; text.
using ExampleSet = std::variant<LabelledRows, SparseEntries, Text>;

/// Rows, entries or sentences [first, last) of an ExampleSet.
struct ExampleRange {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
  bool operator==(const ExampleRange&) const = default;
};

/// This rank's part of a micro-batch: B examples, in canonical order, normalised and augmented; or only their indices,
/// where a device keeps the features and normalises and augments them itself. The memory belongs to the source and
/// stays valid until the source's next batch is requested. B may be 0: the rank then still takes part in collectives.
///
/// Examples of a set that is not a table are not copied: the batch has `set` and `ranges`, and neither `examples` nor
/// features, labels and targets. An example of a text is one word, so `size` is the number of words in the batch's
/// sentences.
struct Batch {
  Index size = 0;              ///< B
  Index micro_batch_size = 0;  ///< examples of this micro-batch on all ranks that share it
  Index global_size = 0;       ///< examples of the step: all its micro-batches on all ranks
  Index rank_step_size = 0;    ///< examples of the step on this rank: all its micro-batches
  std::int64_t epoch = 0;
  std::int64_t epoch_examples_before = 0;    ///< examples of the epoch, on all ranks, in earlier steps
  Index micro_batch = 0, micro_batches = 1;  ///< number of this micro-batch in the step; micro-batches of the step
  Index rank_micro_batches = 1;              ///< micro-batches of the step on this rank, an empty one included
  /// Whether this rank has the whole micro-batch, so that batch statistics need no communication.
  bool whole = false;
  bool last_of_step = true;  ///< this rank's last micro-batch of its step
  bool last_of_epoch = false;
  std::span<const std::uint64_t> examples = {};  ///< [B] indices in the set
  View features = {};                            ///< [B, C, H, W]; empty where a device keeps them
  KeptFeatures* kept = nullptr;               ///< the features that a device keeps, indexed by `examples`; null: none
  std::span<const Movement> movements = {};   ///< [B] augmentations for the device to apply; empty: none
  std::span<const std::int32_t> labels = {};  ///< [B], or empty; of a language model [B, T], −1 where there is none
  /// [B] where examples are mixed with others: the second label of each, and its share of the target; `labels` have the
  /// larger part of the example. Else empty.
  std::span<const std::int32_t> other_labels = {};
  View other_shares = {};
  std::span<const std::int32_t> tokens = {};  ///< [B, T] of a set of tokens: the inputs; else empty
  /// [B] how many tokens of an example are real, where texts differ in length; behind them is padding. Else empty.
  std::span<const std::int32_t> lengths = {};
  Index rows = 1;                             ///< T, rows of an example
  View targets = {};                          ///< [B, T], or empty
  View weights = {};                          ///< [B] weights of the examples' losses in training; empty: all are 1
  const ExampleSet* set = nullptr;            ///< null: a table of dense features
  std::span<const ExampleRange> ranges = {};  ///< ranges of `set`, to be visited in this order
};

/// How few examples a micro-batch may have: two where batch statistics are taken of one value of each example.
struct LeastExamples {
  Index together = 1;  ///< examples of the micro-batch over all ranks
  Index of_rank = 1;   ///< examples of the micro-batch on each rank that has some
};

/// A run's position in its training data: the next batch is the first of this step.
struct DataCursor {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< within the epoch
};

/// Yields a rank's training batches, epoch after epoch, without end; prefetches.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch. \throws DataError
  virtual Batch next() = 0;
  virtual std::int64_t steps_per_epoch() const = 0;
  virtual std::int64_t examples_per_epoch() const = 0;  ///< examples of an epoch over all ranks
  /// The next batch will be the first of this step.
  virtual void seek(const DataCursor& cursor) = 0;
  /// Seconds that callers of `next` have waited so far.
  virtual double wait_seconds() const = 0;
};

}  // namespace unisono::data
