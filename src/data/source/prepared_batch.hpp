#pragma once

#include <vector>

#include "dense/feature_writer.hpp"
#include "dense/rows.hpp"
#include "order/schedule.hpp"

namespace unisono::data {

/// A batch and the memory that it views.
struct PreparedBatch {
  Buffer features, targets;
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
  std::vector<std::uint64_t> examples;
  std::vector<Movement> movements;
  Batch batch;
};

/// What of a group's examples goes into batches, and how.
struct BatchStyle {
  bool labels = false;
  Index target_size = 0;  ///< 0: no targets
  bool features_are_targets = false;
  AugmentationSettings augmentation;
  std::uint64_t seed = 0;
  std::vector<float> class_weights = {};  ///< by label; empty: all are 1
  bool example_weights = false;           ///< whether the examples have weights of their own, too
};

/// Converts, normalises and augments examples into batches.
class BatchWriter {
 public:
  BatchWriter(const GroupSchema& group, const Normalization& normalization, const BatchStyle& style);

  /// Leaves features to a device that keeps these rows: from now on batches have their examples' movements in place.
  /// \param rows of the group, in memory \param keep may be empty, and may decline
  void deliver_kept(const RowBlock& rows, const KeepFeatures& keep);

  PreparedBatch make(Index largest, Allocator& memory) const;
  /// Fills the examples of a batch; its other members are `header`'s.
  void write(const std::vector<RawExample>& examples, const Batch& header, PreparedBatch& prepared);

 private:
  void write_features(const RawExample& example, std::int64_t epoch, std::size_t i, PreparedBatch& prepared);
  /// What an example's loss is multiplied with: its own weight and its class'.
  float weight_of(const RawExample& example) const;
  bool has_weights() const { return style_.example_weights || !style_.class_weights.empty(); }

  FeatureWriter writer_;
  BatchStyle style_;
  bool augments_;
  KeptFeatures* kept_ = nullptr;
  std::size_t feature_size_, target_size_;  ///< of an example in a batch; no features where a device keeps them
  std::size_t movement_size_ = 0;           ///< 1 where a device is to move what it keeps
};

}  // namespace unisono::data
