#include "simulated/network.hpp"

#include <algorithm>
#include <cmath>

#include "unisono/comm/buckets.hpp"

namespace unisono::comm::simulated {
namespace {

constexpr double kPacketBytes = 64 << 10;  // of which others wait for a link
constexpr double kMostPackets = 64;        // of a message, however long it is

/// Rounds in which one host's news reaches so many.
double rounds(int hosts) { return std::ceil(std::log2(std::max(hosts, 1))); }

}  // namespace

Network::Network(const SimulatedNetwork& settings, VirtualRuntime& runtime, int ranks)
    : settings_(settings), runtime_(runtime), links_(static_cast<std::size_t>(ranks / settings.ranks_per_host + 1)) {}

void Network::begin_arrivals() {
  if (!begin_) begin_ = runtime_.seconds();
}

void Network::wait_for_start(int rank, int tag) const {
  if (settings_.starts.empty() || !begin_ || tag == Communicator::kGatherTag) return;
  const double wait = *begin_ + settings_.starts[static_cast<std::size_t>(rank)] - runtime_.seconds();
  if (wait > 0) runtime_.sleep(wait);
}

std::optional<double> Network::recorded_arrival(int from, int to, int tag) {
  if (settings_.recorded == nullptr || !begin_ || tag == Communicator::kGatherTag) return std::nullopt;
  const std::optional<double> seconds = settings_.recorded->next(from, to, tag);
  return seconds ? std::optional(*begin_ + *seconds) : std::nullopt;
}

void Network::carry(int from, int to, std::size_t bytes, std::optional<double> recorded,
                    std::function<void()> arrived) {
  if (recorded) {
    if (*recorded < runtime_.seconds()) settings_.recorded->count_late();
    return runtime_.at(*recorded, std::move(arrived));
  }
  const int sender = host_of(from), receiver = host_of(to);
  const auto length = static_cast<double>(bytes);
  if (sender == receiver) {
    const double copying = length / settings_.in_host.bytes_per_second;
    const double latency = from == to ? 0 : settings_.in_host.seconds;
    return runtime_.at(runtime_.seconds() + copying + latency, std::move(arrived));
  }
  HostLink& own = link(sender);
  own.waiting.push_back({receiver, length, std::max(kPacketBytes, length / kMostPackets), std::move(arrived)});
  if (own.is_waited_for) return;
  own.sends_until > runtime_.seconds() ? send_later(sender) : send_next(sender);
}

void Network::send_later(int host) {
  link(host).is_waited_for = true;
  runtime_.at(link(host).sends_until, [this, host] { send_next(host); });
}

/// Sends a packet of the message whose turn it is.
void Network::send_next(int host) {
  HostLink& own = link(host);
  own.is_waited_for = false;
  Message message = std::move(own.waiting.front());
  own.waiting.pop_front();
  const double now = runtime_.seconds(), bytes = std::min(message.left, message.packet);
  message.left -= bytes;
  own.sends_until = now + passing(bytes);
  const bool is_last = message.left <= 0;
  std::function<void()> arrived = is_last ? std::move(message.arrived) : std::function<void()>();
  runtime_.at(
      now + settings_.between_hosts.seconds,
      [this, to = message.to, bytes, then = std::move(arrived)]() mutable { receive(to, bytes, std::move(then)); });
  if (!is_last) own.waiting.push_back(std::move(message));
  if (!own.waiting.empty()) send_later(host);
}

/// Called when a packet's first byte is at the host's link. \param arrived empty: more packets follow
void Network::receive(int host, double bytes, std::function<void()> arrived) {
  HostLink& own = link(host);
  own.receives_until = std::max(runtime_.seconds(), own.receives_until) + passing(bytes);
  if (arrived) runtime_.at(own.receives_until, std::move(arrived));
}

/// It waits for what was sent before.
double Network::done(const Collective& collective, int ranks, std::span<const int> hosts) {
  const double now = runtime_.seconds(), seconds = seconds_of(collective, ranks, static_cast<int>(hosts.size()));
  if (hosts.size() < 2) return now + seconds;
  double begins = now;
  for (const int host : hosts) {
    double waiting = 0;
    for (const Message& message : link(host).waiting) waiting += message.left;
    begins = std::max({begins, link(host).sends_until + passing(waiting), link(host).receives_until});
  }
  const double ends = begins + seconds;
  if (collective.bytes == 0) return ends;
  for (const int host : hosts) {
    HostLink& own = link(host);
    own.receives_until = ends;
    if (own.waiting.empty()) own.sends_until = ends;
  }
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
      return copying + settings_.sum_factor * (far.seconds + share * bytes / far.bytes_per_second);
    case Pattern::sum:
      if (bytes * ranks <= static_cast<double>(kShortSumBytes)) {
        return copying + settings_.sum_factor * (far.seconds + others * bytes / far.bytes_per_second);
      }
      return copying + settings_.sum_factor * 2 * (far.seconds + share * bytes / far.bytes_per_second);
  }
  return 0;
}

}  // namespace unisono::comm::simulated
