#pragma once

#include "unisono/base/config.hpp"

// Keys that several update rules have.

namespace unisono::optim {

/// momentum, in [0, 1)
void describe_momentum(ConfigVisitor& visitor, double& momentum);
/// epsilon, above 0: where gradient and state are 0, a step must not divide 0 by 0
void describe_epsilon(ConfigVisitor& visitor, double& epsilon);

}  // namespace unisono::optim
