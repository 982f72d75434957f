#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "meeting_communicator.hpp"
#include "unisono/comm/simulated.hpp"

namespace unisono::comm::simulated {

/// When messages arrive, and when collectives are done. All times are simulated seconds.
///
/// A host's link sends the messages that want it in turn, a packet of each, and receives packets in the order in which
/// they come. So messages that share a link share its bandwidth.
class Network {
 public:
  Network(const SimulatedNetwork& settings, VirtualRuntime& runtime, int ranks);

  int host_of(int rank) const { return rank / settings_.ranks_per_host; }
  /// Calls `arrived` when a message that is sent now has arrived. \param from, to ranks
  void carry(int from, int to, std::size_t bytes, std::function<void()> arrived);
  /// When a collective of so many ranks is done, the last of which has come now. \param hosts of the ranks, each once
  double done(const Collective& collective, int ranks, std::span<const int> hosts);

 private:
  /// A message that its host has not sent, or only in part.
  struct Message {
    int to;  ///< host
    double left, packet;
    std::function<void()> arrived;
  };
  /// Of one host: until when its link is taken by packets, in both directions, and what waits for it.
  struct HostLink {
    double sends_until = 0, receives_until = 0;
    std::deque<Message> waiting = {};
    bool is_waited_for = false;  ///< whether send_next will be called
  };
  HostLink& link(int host) { return links_[static_cast<std::size_t>(host)]; }
  double passing(double bytes) const { return bytes / settings_.between_hosts.bytes_per_second; }
  void send_next(int host);
  void send_later(int host);
  void receive(int host, double bytes, std::function<void()> arrived);
  double seconds_of(const Collective& collective, int ranks, int hosts) const;

  SimulatedNetwork settings_;
  VirtualRuntime& runtime_;
  std::vector<HostLink> links_;  ///< by host
};

}  // namespace unisono::comm::simulated
