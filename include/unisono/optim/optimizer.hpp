#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/kernels/step_kernels.hpp"
#include "unisono/kernels/update_kernels.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::optim {

/// The name of the first of optimizer_kinds().
std::string default_optimizer();

/// `[optimizer]`: the settings that all update rules have, and those of each kind.
struct OptimizerSettings {
  std::string kind = default_optimizer();  ///< a name of optimizer_kinds()
  double learning_rate = 0.01;
  double weight_decay = 0;               ///< λ
  DecayRule decay = DecayRule::weights;  ///< what λ applies to
  bool decay_biases_and_norms = false;   ///< a config's older key for DecayRule::all; nothing else reads it
  double clip_norm = 0;                  ///< largest norm of the whole gradient; 0: no clipping
  OwnSettings own = {};
  void describe(ConfigVisitor& visitor);
};

/// A vector of θ's size that an update rule keeps in the device's memory, e.g. {"velocity", …}.
struct OptimizerState {
  std::string name;
  Buffer values;
};

/// An update rule: θ ← θ − rate · direction(g, state). The floats between the blocks of θ stay zero, as the floats
/// between the blocks of g do. All vectors lie in the device's memory.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Makes a step on the whole vector. \param gradient of the mean loss over the global batch, all ranks' parts summed
  /// \param gradient_scale what the gradient is to be multiplied with first
  virtual void step(MutableView parameters, View gradient, double learning_rate, float gradient_scale = 1) = 0;

  /// Whether a step may be made in parts: the step of each float of θ depends on the same float of g and state alone.
  /// It may not where norms are needed, for clipping or for rates of blocks.
  virtual bool steps_in_parts() const = 0;
  /// Begins a step in parts; each float of θ belongs to one part. \pre steps_in_parts()
  virtual void begin_step(double learning_rate, float gradient_scale = 1) = 0;
  /// Makes the part of a step for as many floats as `parameters` has, from float `first` of the whole vector on.
  virtual void step_part(Index first, MutableView parameters, View gradient) = 0;

  /// Of a step in parts, after begin_step: makes parts of it inside of a backward pass. The caller makes the others.
  /// Must not outlive the step. Null where the rule or the device cannot. \param parameters the whole vector
  virtual std::unique_ptr<kernels::StepAtOnce> step_at_once(MutableView parameters) = 0;

  /// The state vectors, for checkpoints and averaging.
  virtual std::vector<OptimizerState>& state() = 0;
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;
  /// Starts afresh: zero state, no steps.
  virtual void reset() = 0;
  /// ‖g‖ of the last step, before clipping, where it was computed; else negative. Waits for the device.
  virtual double last_gradient_norm() const = 0;
};

/// Makes the update rule that settings.kind names, for all of θ.
/// \throws ConfigError for a kind that does not exist, or that has no kernels on this device
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterLayout& layout,
                                          kernels::UpdateKernels& kernels);

/// Makes the update rule that settings.kind names, for what this rank holds of θ: g and the state vectors are held as θ
/// is, and laid out as θ is in this rank's memory. The ranks together make the same step as one rank that holds all of
/// θ, on CPUs bit for bit. A step is collective where the ranks divide a copy of θ and norms are needed: of the whole
/// gradient for clipping, of whole blocks for LARS and LAMB; each takes one message. \param holding must outlive the
/// optimizer \throws ConfigError for a kind that does not exist, or that has no kernels on this device
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const Holding& holding,
                                          kernels::UpdateKernels& kernels);

/// How many vectors of θ's size an optimizer with these settings keeps; each takes layout.size() floats of the device's
/// memory.
int optimizer_state_vectors(const OptimizerSettings& settings);

/// ‖v‖² of the whole vector, of which this rank has a part. Collective over the ranks that hold a copy together, if
/// these are several (see Holding::squares). On CPUs the same bits whoever holds what. \param vector [holding.size()]
/// in the device's memory
double squared_norm(const Holding& holding, View vector, kernels::VectorKernels& kernels);

}  // namespace unisono::optim
