#pragma once

#include <limits>

namespace unisono::parallel {

/// Seconds of the passes of one micro-batch. A backward pass in one operation takes the sum of its halves. Where
/// activations are computed anew, the caller adds the forward pass to `backward_inputs`.
struct PassSeconds {
  double forward = 0, backward_inputs = 0, backward_weights = 0;
  double sum() const { return forward + backward_inputs + backward_weights; }
  PassSeconds& operator+=(const PassSeconds& more) {
    forward += more.forward;
    backward_inputs += more.backward_inputs;
    backward_weights += more.backward_weights;
    return *this;
  }
};

/// What goes from a piece to the next for one micro-batch; the gradients that come back have the same size. Free
/// between two pieces of one rank.
struct BoundaryCost {
  double bytes = 0;
  double latency = 0;                                          ///< seconds
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes a second
};

}  // namespace unisono::parallel
