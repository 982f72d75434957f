#pragma once

namespace unisono::kernels {

// The scalars of the update rules, for one step.

struct SgdStep {
  float rate = 0, momentum = 0, decay = 0;  ///< decay: λ of λθ added to the gradient, in ranges that decay
  bool nesterov = false;
};

struct AdagradStep {
  float rate = 0, decay = 0, epsilon = 0;
};

struct RmspropStep {
  float rate = 0, decay = 0, smoothing = 0, epsilon = 0;
};

struct AdamStep {
  float rate = 0, decay = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float correction1 = 1, correction2 = 1;  ///< 1 / (1 − βᵗ)
  bool decoupled = false;                  ///< AdamW: λθ is added to the direction, not to the gradient
};

struct LarsStep {
  float rate = 0, momentum = 0, decay = 0;
  double trust = 0;
};

}  // namespace unisono::kernels
