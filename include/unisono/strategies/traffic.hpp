#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "unisono/kernels/encoders.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {
struct CompressionSettings;
}

namespace unisono::strategies {

/// Who sends what to whom, in one exchange.
enum class Pattern {
  sum,         ///< an allreduce of a vector
  slices,      ///< each rank sends every other one its slice of a message, twice: what it says, then what the sum says
  gather,      ///< each rank sends a message to every other one
  neighbours,  ///< each rank sends a vector to some others, and receives as much
  serve        ///< each worker and the servers: a vector one way
};

/// What a rank computes while an exchange is under way.
enum class During {
  nothing,   ///< it waits
  backward,  ///< the rest of the backward pass: parts are sent as soon as they are final
  gradient,  ///< the gradient of a step
  period     ///< all steps until the next exchange
};

/// Something that the ranks of a strategy send each other again and again.
struct Exchange {
  Pattern pattern = Pattern::sum;
  Index floats = 0;        ///< of the vector that the exchange is about
  bool encoded = false;    ///< whether it is compressed: by Traffic::encoder or, without one, to fewer floats
  double every_steps = 1;  ///< a rank's steps from one exchange to the next
  During during = During::nothing;
  int rounds = 0;  ///< of neighbours: exchanges after which they recur; 0: one neighbour is drawn for each exchange
  /// Of neighbours that recur: to whom a rank sends in a round.
  std::function<std::vector<int>(int round, int rank)> receivers = {};
  /// Of neighbours of whom some begin exchanges, which the others answer one at a time: how many ranks. 0: each sends
  /// by itself.
  int begin = 0, answer = 0;
};

/// Waits of a rank's threads for messages while it computes. Together they take all of a step: when a message comes is
/// not known, as other ranks are faster or slower.
struct Wait {
  double threads = 1;   ///< that wait so, on average over ranks and time
  double per_step = 1;  ///< of each, one after the other; less than 1: a wait lasts for several steps
};

/// What the ranks of a strategy send each other in its steps, and what that costs a rank, for predictions of how long
/// steps take (`unisono plan`).
struct Traffic {
  std::vector<Exchange> exchanges = {};
  std::unique_ptr<kernels::Encoder> encoder = nullptr;  ///< of encoded messages; null: there are none
  /// Floats that a rank reads or writes in a step beyond the gradient and the optimizer's update.
  double touched_floats = 0;
  std::vector<Wait> waits = {};
  /// Whether steps are those of the serial run, but for the order of sums.
  bool makes_serial_steps = false;
  /// Whether a rank makes its steps as one rank by itself does, so that updates may be parts of the backward pass.
  bool makes_own_steps = false;
};

/// The traffic of a sum of gradients over the ranks, as parallel::make_compressed_sum makes it, or in buckets where
/// nothing is compressed.
Traffic traffic_of_sum(const ParameterLayout& layout, const parallel::CompressionSettings& compression);

}  // namespace unisono::strategies
