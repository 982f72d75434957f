#pragma once

#include <cstdint>
#include <memory>

#include "checkpoint/held_vector.hpp"
#include "checkpoint/stored_checkpoint.hpp"
#include "machine/parts.hpp"

namespace unisono::experiment {

/// A moving average of θ, and of the running statistics with it, which is what is evaluated and used:
///     θ̄ ← d θ̄ + (1 − d) θ        after each step,        d = min(decay, (t − 1) / (t + 8)) in step t = 1, 2, …
/// So θ̄ begins as the first step's θ and soon forgets the early ones, whatever the decay; initial values have no part
/// in it. Where the ranks hold different models in most steps (strategy averaging), it is of those steps where they
/// hold the same, with the product of the d since the one before.
///   Ruppert 1988; Polyak & Juditsky, SIAM J. Control Optim. 30(4), 1992; the warm-up of the decay as in TensorFlow's
///   ExponentialMovingAverage, counted from the first step.
/// Cost: one pass over θ a step, 8 bytes read and 4 written a float. Memory: one more θ, in checkpoints, too.
class WeightAverage {
 public:
  WeightAverage(ModelParts& parts, double decay);

  /// Takes in the model as it is after so many steps; in the first one it sees, that alone.
  void update(std::int64_t step);

  /// For checkpoints.
  HeldState state();
  void restore(const StoredCheckpoint& stored);

  /// In its scope the parts hold the average, and the average what they held.
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

/// Null where the config wants none. \throws ConfigError where the model is updated in place
std::unique_ptr<WeightAverage> make_weight_average(ModelParts& parts, const Config& config, bool in_place);

/// What of θ̄ the steps (from, to] leave, in the first step 0.
double kept_share(double decay, std::int64_t from, std::int64_t to);

/// Where a checkpoint keeps the average; see checkpoint.hpp.
inline constexpr const char* kAverageGroup = "average/";

}  // namespace unisono::experiment
