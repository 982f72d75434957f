#pragma once

#include <vector>

#include "dense/feature_writer.hpp"
#include "dense/rows.hpp"
#include "order/schedule.hpp"

namespace unisono::data {

/// A batch and the memory to which it points.
struct PreparedBatch {
  Buffer features, targets;
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
  std::vector<std::uint64_t> examples;
  std::vector<Movement> movements;
  Batch batch;
};

/// What a batch contains of a group's examples, and how it is made.
struct BatchStyle {
  bool labels = false;
  Index target_size = 0;  ///< 0: no targets
  bool features_are_targets = false;
  bool inputs = true;  ///< false: batches have no features, unless these are targets, too
  AugmentationSettings augmentation;
  std::uint64_t seed = 0;
  std::vector<float> class_weights = {};  ///< by label; empty: all are 1
  bool example_weights = false;           ///< whether the examples have weights of their own
};

/// Converts, normalises and augments examples into batches.
class BatchWriter {
 public:
  BatchWriter(const GroupSchema& group, const Normalization& normalization, const BatchStyle& style);

  /// Offers these rows to a device to keep. If it accepts, batches have no features from now on, only the examples'
  /// indices and, with augmentation, `movements`.
  /// \param rows the group's, in memory \param keep may be empty, and may decline
  void deliver_kept(const RowBlock& rows, const KeepFeatures& keep);

  /// Allocates memory for batches of up to `largest` examples.
  PreparedBatch make(Index largest, Allocator& memory) const;
  /// Writes examples into a batch, and copies its other members from `header`.
  void write(const std::vector<RawExample>& examples, const Batch& header, PreparedBatch& prepared);

 private:
  void write_features(const RawExample& example, std::int64_t epoch, std::size_t i, PreparedBatch& prepared);
  /// Brings the features of the next example near: rows come in random order, which the processor cannot guess.
  void fetch_ahead(const RawExample& example) const;
  /// The factor of an example's loss: its own weight times its class's.
  float weight_of(const RawExample& example) const;
  bool has_weights() const { return style_.example_weights || !style_.class_weights.empty(); }

  FeatureWriter writer_;
  BatchStyle style_;
  bool augments_;
  KeptFeatures* kept_ = nullptr;
  std::size_t feature_size_, target_size_;  ///< of an example in a batch; 0 features if a device keeps them
  std::size_t movement_size_ = 0;           ///< 1 if a device augments the features that it keeps; else 0
  std::size_t stored_bytes_;                ///< of an example's features in the set
};

}  // namespace unisono::data
