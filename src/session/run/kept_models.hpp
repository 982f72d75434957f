#pragma once

#include <memory>

#include "checkpoint/checkpoint_store.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::session {

/// Where a run keeps its model during training: as checkpoints in its folder or, if it writes no files, only the best
/// model in memory. All functions are collective.
class KeptModels {
 public:
  virtual ~KeptModels() = default;
  /// Keeps the model of step header.step. \param best whether it is the one for `restore_best`
  virtual void keep(const CheckpointHeader& header, const StoredVectors& state, bool best) = 0;
  /// Copies the state of step header.step to where it outlives a lost rank or node, as far as the config asks for it.
  virtual void copy(const CheckpointHeader& /*header*/, const StoredVectors& /*state*/) {}
  /// Whether a write goes on in the background; call `advance` from time to time then, and `finish` at the end.
  virtual bool is_busy() const { return false; }
  virtual void advance() {}
  virtual void finish() {}
  /// Adds what was counted; the same counters on every rank.
  virtual void count(CounterSet& /*counters*/) const {}
  /// Restores the best model, which is of this step.
  virtual void restore_best(std::int64_t step) = 0;
  /// Whether the kept models outlive the run.
  virtual bool is_lasting() const = 0;
};

/// Keeps them as checkpoints. The arguments must outlive the result.
std::unique_ptr<KeptModels> keep_in(CheckpointStore& checkpoints, ModelParts& parts, TrainingParts& training);

/// Keeps the best one in memory. \param best whether it will be needed; if not, nothing is kept
std::unique_ptr<KeptModels> keep_in_memory(ModelParts& parts, bool best);

}  // namespace unisono::session
