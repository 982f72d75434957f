#pragma once

#include <functional>
#include <limits>
#include <string>

#include "unisono/base/virtual_runtime.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// How fast messages are between simulated ranks. A message takes the latency and then its bytes over the bandwidth.
/// Each host has one link for all that its ranks send to other hosts, and one for all that they receive from there;
/// messages that want it at the same time share it.
struct SimulatedNetwork {
  struct Link {
    double bytes_per_second = 0, seconds = 0;  ///< bandwidth and latency
  };
  int ranks_per_host = 1;
  Link between_hosts;
  Link in_host;           ///< for each message by itself: ranks of a host do not wait for each other's
  double sum_factor = 1;  ///< how many times as long sums over hosts take as their bytes on the links
};

/// Runs body(communicator) on so many simulated ranks. Their messages take simulated time; collectives take as long as
/// the algorithms that run between real hosts would. When all have ended, the first exception other than a PeerFailure
/// is rethrown.
/// \param fails_at the simulated second at which a host fails: all ranks get a PeerFailure when they next communicate
/// \return whether it did: false where all have ended before
bool run_simulated(VirtualRuntime& runtime, int ranks, const SimulatedNetwork& network,
                   const std::function<void(Communicator&)>& body,
                   double fails_at = std::numeric_limits<double>::infinity());

}  // namespace unisono::comm
