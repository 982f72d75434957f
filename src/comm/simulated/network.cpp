#include "simulated/network.hpp"

#include <algorithm>
#include <cmath>

#include "unisono/comm/buckets.hpp"

namespace unisono::comm::simulated {
namespace {

/// Rounds in which one host's news reaches so many.
double rounds(int hosts) { return std::ceil(std::log2(std::max(hosts, 1))); }

}  // namespace

Network::Network(const SimulatedNetwork& settings, int ranks)
    : settings_(settings), links_(static_cast<std::size_t>(ranks / settings.ranks_per_host + 1)) {}

double Network::arrival(double now, int from, int to, std::size_t bytes) {
  const int sender = host_of(from), receiver = host_of(to);
  const auto length = static_cast<double>(bytes);
  if (sender == receiver) {
    const double copying = settings_.in_host.seconds + length / settings_.in_host.bytes_per_second;
    return now + (from == to ? length / settings_.in_host.bytes_per_second : copying);
  }
  HostLink &out = links_[static_cast<std::size_t>(sender)], &in = links_[static_cast<std::size_t>(receiver)];
  const double passing = length / settings_.between_hosts.bytes_per_second;
  const double begins = std::max(now, out.sends_until);
  out.sends_until = begins + passing;
  const double comes = std::max(begins + settings_.between_hosts.seconds, in.receives_until);
  in.receives_until = comes + passing;
  return in.receives_until;
}

double Network::done(double now, const Collective& collective, int ranks, std::span<const int> hosts) {
  const double seconds = seconds_of(collective, ranks, static_cast<int>(hosts.size()));
  if (hosts.size() < 2) return now + seconds;
  double begins = now;
  for (const int host : hosts) {
    const HostLink& link = links_[static_cast<std::size_t>(host)];
    begins = std::max({begins, link.sends_until, link.receives_until});
  }
  const double ends = begins + seconds;
  if (collective.bytes == 0) return ends;
  for (const int host : hosts) links_[static_cast<std::size_t>(host)] = {ends, ends};
  return ends;
}

/// As `unisono plan` predicts them. Sums of short vectors: every host sends its own to all others. Of long ones: every
/// host adds up a slice, and sends it to all others.
double Network::seconds_of(const Collective& collective, int ranks, int hosts) const {
  const SimulatedNetwork::Link &near = settings_.in_host, &far = settings_.between_hosts;
  const auto bytes = static_cast<double>(collective.bytes);
  const double others = hosts - 1, share = others / hosts;
  const double copying = ranks > hosts ? near.seconds + bytes / near.bytes_per_second : 0;
  if (ranks == 1) return 0;
  if (hosts == 1) return near.seconds + bytes / near.bytes_per_second;
  switch (collective.pattern) {
    case Pattern::barrier:
    case Pattern::node_barrier:
      return rounds(hosts) * far.seconds;
    case Pattern::broadcast:
      return copying + rounds(hosts) * far.seconds + bytes / far.bytes_per_second;
    case Pattern::gather:
      return copying + rounds(hosts) * far.seconds + bytes * (ranks - 1) / far.bytes_per_second;
    case Pattern::half_of_sum:
      return copying + far.seconds + share * bytes / far.bytes_per_second;
    case Pattern::sum:
      if (bytes * ranks <= static_cast<double>(kShortSumBytes)) {
        return copying + far.seconds + others * bytes / far.bytes_per_second;
      }
      return copying + 2 * (far.seconds + share * bytes / far.bytes_per_second);
  }
  return 0;
}

}  // namespace unisono::comm::simulated
