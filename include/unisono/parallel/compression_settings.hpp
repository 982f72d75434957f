#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {

enum class Compression { none, bf16, eight_bit, one_bit, threshold, top_k, power_sgd };

/// The values from other sections of the config that compression depends on.
struct CompressionTerms {
  double clip_norm = 0;
  int optimizer_states = 0;   ///< vectors that the optimizer keeps
  bool reproducible = false;  ///< sums over ranks are made in an order that does not depend on their number
};

/// `[strategy.compression]`: what ranks send instead of whole gradients, or of whole changes of parameters.
struct CompressionSettings {
  Compression kind = Compression::none;
  double threshold = 0;                 ///< of kind threshold: τ; 0: by density
  double threshold_density = 0.01;      ///< of kind threshold: share of the values that are sent, where τ is adapted
  double residual_limit = 0;            ///< of kind threshold: residuals are cut to so many times τ; 0: they are not
  double density = 0.01;                ///< of kind top_k: share of the values that are sent
  double momentum = 0;                  ///< of kind top_k: momentum correction
  std::int64_t ramp_steps = 0;          ///< of kind top_k: steps in which the share falls to `density`
  std::int64_t rank = 2;                ///< of kind power_sgd
  std::int64_t warmup_steps = 0;        ///< steps of the run whose gradients are sent whole
  double clip_norm = 0;                 ///< of a rank's own gradient, before it is compressed; 0: not clipped
  std::vector<std::string> exact = {};  ///< blocks that are sent whole, in addition to biases and norms

  bool is_on() const { return kind != Compression::none; }
  /// The keys about gradients.
  void describe(ConfigVisitor& visitor);
  /// The keys about changes of parameters: what there is for gradients alone is left out.
  void describe_for_changes(ConfigVisitor& visitor);
  /// The keys about gradients that workers push to servers, each at its own pace.
  void describe_for_pushes(ConfigVisitor& visitor);
  /// Checks against other sections, as errors of `visitor`.
  void check(const CompressionTerms& terms, ConfigVisitor& visitor) const;
};

/// \throws ConfigError where a pattern of `exact` fits no block of the model
void require_fitting_blocks(const CompressionSettings& settings, const ParameterLayout& layout);

/// Null for power_sgd, which has none.
std::unique_ptr<kernels::Encoder> make_encoder(const CompressionSettings& settings);

}  // namespace unisono::parallel
