#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_store.hpp"
#include "machine/parts.hpp"

namespace unisono::experiment {

/// Where a run keeps its model as it goes on: in its folder, or, where it writes nothing, the best one in memory.
/// Everything is collective.
class KeptModels {
 public:
  virtual ~KeptModels() = default;
  /// Keeps the model as it is after header.step. \param best whether `restore_best` is to bring it back
  virtual void keep(const CheckpointHeader& header, const HeldState& state, bool best) = 0;
  /// Whether it goes on in the background; then `advance` is to be called now and then, and `finish` at the end.
  virtual bool is_busy() const { return false; }
  virtual void advance() {}
  virtual void finish() {}
  /// Sets the model to the best one, which is of this step.
  virtual void restore_best(std::int64_t step) = 0;
  /// Whether what is kept outlives the run.
  virtual bool is_lasting() const = 0;
};

/// As checkpoints. They and the parts outlive this.
std::unique_ptr<KeptModels> keep_in(CheckpointStore& checkpoints, ModelParts& parts, TrainingParts& training);

/// In memory. \param best whether the best model will be wanted; else nothing is kept
std::unique_ptr<KeptModels> keep_in_memory(ModelParts& parts, bool best);

}  // namespace unisono::experiment
