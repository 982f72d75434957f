#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono {

struct OptimizerSettings {
  std::string kind = "sgd";  ///< sgd, adagrad, rmsprop, adam, adamw, lars, lamb
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  bool decay_biases_and_norms = false;
  double clip_norm = 0;  ///< 0: no clipping
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, smoothing = 0.99, trust = 0.001;
  void describe(ConfigVisitor& visitor);
};

/// A vector of θ's size that an update rule keeps, e.g. {"velocity", …}.
struct OptimizerState {
  std::string name;
  Buffer values;
};

/// An update rule: θ ← θ − rate · direction(g, state).
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One step on the whole vector. \param gradient of the mean loss over the global batch, all ranks' parts summed
  virtual void step(MutableView parameters, View gradient, double learning_rate) = 0;

  /// For checkpoints and averaging.
  virtual std::vector<OptimizerState>& state() = 0;
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;
  /// As new: zero state, no steps.
  virtual void reset() = 0;
  /// ‖g‖ of the last step, before clipping, where it was computed; else negative.
  virtual double last_gradient_norm() const = 0;
};

/// \throws ConfigError
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterLayout& layout,
                                          Backend& backend);

}  // namespace unisono
