#pragma once

#include <cstdint>
#include <memory>

#include "unisono/session/model_parts.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::session {

/// An exponential moving average of θ and of the running statistics, with which the model is evaluated and applied:
///     θ̄ ← d θ̄ + (1 − d) θ        after each step,        d = min(decay, (t − 1) / (t + 8)) in step t = 1, 2, …
/// So θ̄ begins as the θ of the first step and soon forgets the early steps, whatever the decay; the initial values do
/// not contribute. If the ranks hold different models in most steps (strategy averaging), θ̄ takes in only the steps
/// where all ranks hold the same model, with the product of the d of the steps since the previous one.
///   Ruppert 1988; Polyak & Juditsky, SIAM J. Control Optim. 30(4), 1992; the warm-up of the decay as in TensorFlow's
///   ExponentialMovingAverage, counted from the first step.
/// Cost per step: one pass over θ, 8 bytes read and 4 written per float. Memory: a second θ, also in checkpoints.
class WeightAverage {
 public:
  WeightAverage(ModelParts& parts, double decay);

  /// Takes in the model after `step` steps; the first call copies the model.
  void update(std::int64_t step);

  /// The averages, as vectors of checkpoints.
  StoredVectors state();
  void restore(const StoredCheckpoint& stored);

  /// Swaps the average into `parts` for its scope, so that the averaged model is evaluated.
  class InPlace {
   public:
    /// \param average null: nothing changes
    InPlace(ModelParts& parts, WeightAverage* average) : parts_(parts), average_(average) { swap(); }
    ~InPlace() { swap(); }
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;

   private:
    void swap();
    ModelParts& parts_;
    WeightAverage* average_;
  };

 private:
  ModelParts& parts_;
  double decay_;
  Buffer parameters_, statistics_;
  std::int64_t step_ = 0;  ///< of the last update
};

/// The average that a config asks for; null if it asks for none. \throws ConfigError if the model is updated in place
std::unique_ptr<WeightAverage> make_weight_average(ModelParts& parts, const settings::Config& config, bool in_place);

/// The weight of the old θ̄ after steps (from, to]: the product of their d; 0 if they include the first step.
double kept_share(double decay, std::int64_t from, std::int64_t to);

/// Prefix of the average's groups in a checkpoint; see checkpoint.hpp.
inline constexpr const char* kAverageGroup = "average/";

}  // namespace unisono::session
