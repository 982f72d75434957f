#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "meeting_communicator.hpp"
#include "unisono/comm/simulated.hpp"

namespace unisono::comm::simulated {

/// When messages arrive, and when collectives are done. All times are simulated seconds.
class Network {
 public:
  Network(const SimulatedNetwork& settings, int ranks);

  int host_of(int rank) const { return rank / settings_.ranks_per_host; }
  /// When a message that is sent now has arrived.
  double arrival(double now, int from, int to, std::size_t bytes);
  /// When a collective of so many ranks is done, the last of which has come now. \param hosts of the ranks, each once
  double done(double now, const Collective& collective, int ranks, std::span<const int> hosts);

 private:
  /// Of one host: until when its link is taken by earlier messages, in both directions.
  struct HostLink {
    double sends_until = 0, receives_until = 0;
  };
  double seconds_of(const Collective& collective, int ranks, int hosts) const;

  SimulatedNetwork settings_;
  std::vector<HostLink> links_;  ///< by host
};

}  // namespace unisono::comm::simulated
