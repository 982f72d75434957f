#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
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
  /// From now on, messages follow a recorded run's, where there is one, and ranks wait until they start.
  void begin_arrivals();
  /// Called by a rank before it sends or receives: waits until it starts.
  void wait_for_start(int rank, int tag) const;
  /// When a message arrives that a rank sends next, as recorded. Called in the order of the sends.
  std::optional<double> recorded_arrival(int from, int to, int tag);
  /// Calls `arrived` when a message that is sent now has arrived. \param from, to ranks \param recorded when it does,
  /// if that was recorded
  void carry(int from, int to, std::size_t bytes, std::optional<double> recorded, std::function<void()> arrived);
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
  std::optional<double> begin_;  ///< when begin_arrivals was called
  std::vector<HostLink> links_;  ///< by host
};

}  // namespace unisono::comm::simulated
