#pragma once

#include "unisono/base/counters.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// The ranks' counters, combined as they are declared: those of `file` (Shown::in_metrics or Shown::in_summary), hidden
/// ones included; the others keep this rank's values. Collective; at most four small messages, in metrics none where
/// nothing is to be sent. \throws LaunchError where the ranks count different things
CounterSet combine(Communicator& group, const CounterSet& counters, Shown file);

/// Means of each kind of seconds over the ranks of the group that train. Collective; one message. \param trains whether
/// this rank trains
Seconds mean_seconds(Communicator& group, const Seconds& seconds, bool trains = true);

}  // namespace unisono::comm
