#pragma once

#include <cmath>
#include <vector>

#include "unisono/kernels/update_kernels.hpp"

// Update rules in double, one number at a time, written after the papers; bias corrections from the step's number. `g`
// is the gradient as it was scaled.

namespace unisono::reference {

/// One parameter and the state that a rule keeps for it.
struct Parameter {
  double theta = 0, first = 0, second = 0;
};

/// Sutskever et al. 2013, as PyTorch writes it.
inline void sgd(const kernels::SgdStep& s, double g, Parameter& p, bool has_velocity) {
  g += s.decay * p.theta;
  p.first = s.momentum * p.first + g;
  double direction = p.first;
  if (s.nesterov) direction = g + s.momentum * p.first;
  p.theta -= s.rate * (has_velocity ? direction : g);
}

/// Duchi et al. 2011.
inline void adagrad(const kernels::AdagradStep& s, double g, Parameter& p) {
  g += s.decay * p.theta;
  p.first += g * g;
  p.theta -= s.rate * g / (std::sqrt(p.first) + s.epsilon);
}

/// Hinton 2012.
inline void rmsprop(const kernels::RmspropStep& s, double g, Parameter& p) {
  g += s.decay * p.theta;
  p.first = s.smoothing * p.first + (1.0 - s.smoothing) * g * g;
  p.theta -= s.rate * g / (std::sqrt(p.first) + s.epsilon);
}

/// Kingma & Ba 2015, algorithm 1, step t: updates the moments and returns m̂ / (√v̂ + ε).
inline double adam_direction(const kernels::AdamStep& s, double g, Parameter& p, int t) {
  p.first = s.beta1 * p.first + (1.0 - s.beta1) * g;
  p.second = s.beta2 * p.second + (1.0 - s.beta2) * g * g;
  const double m = p.first / (1.0 - std::pow(s.beta1, t)), v = p.second / (1.0 - std::pow(s.beta2, t));
  return m / (std::sqrt(v) + s.epsilon);
}

/// Decoupled: Loshchilov & Hutter 2019, algorithm 2.
inline void adam(const kernels::AdamStep& s, double g, Parameter& p, int t) {
  const double old = p.theta, decay = s.decay;
  const double direction = adam_direction(s, g + (s.decoupled ? 0 : decay * old), p, t);
  p.theta -= s.rate * (direction + (s.decoupled ? decay * old : 0));
}

/// You et al. 2020, algorithm 2: the direction, before the trust ratio.
inline double lamb_direction(const kernels::AdamStep& s, double g, Parameter& p, int t) {
  return adam_direction(s, g, p, t) + s.decay * p.theta;
}

}  // namespace unisono::reference
