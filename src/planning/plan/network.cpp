#include "plan/network.hpp"

#include "unisono/comm/buckets.hpp"

namespace unisono::planning {
namespace {

/// Ranks that a rank sends to in a round of neighbours, by whether they are on its host.
struct Receivers {
  double inside = 0, outside = 0;
};

}  // namespace

/// Messages of all ranks of a host, all at once. \param inside, outside bytes that the host's ranks send to each other,
/// and to other hosts \param others hosts that they are sent to
ExchangeCost Network::messages(double inside, double outside, int others) const {
  const Link &near = profile_.in_host, &far = profile_.between_hosts;
  const double share = others > 1 ? profile_.crowded_link_share : 1;
  ExchangeCost cost{.sent_bytes = outside};
  if (inside > 0) cost.copying = near.latency() + inside / ranks_.per_host / near.bytes_per_second();
  if (outside > 0) cost.link = far.latency() + outside / (share * far.bytes_per_second());
  return cost;
}

/// In a host by shared memory; between hosts, each rank of a host adds up its slice of its host's sum with those of the
/// same place on the other hosts.
ExchangeCost Network::sum(double bytes) const {
  const int hosts = ranks_.hosts;
  if (ranks_.all() == 1 || bytes <= 0) return {};
  const Curve inside = profile_.sums_in_host.curve();
  const double shared = ranks_.per_host > 1 && !inside.empty() ? inside.at(bytes) : 0;
  if (hosts == 1) return {.copying = shared};
  const bool is_short = bytes * ranks_.all() <= static_cast<double>(comm::kShortSumBytes);
  const double sent = is_short ? bytes * (hosts - 1) : bytes * (hosts - 1) / hosts;
  const int phases = is_short ? 1 : 2;
  const double all = phases * sent;
  const bool same_ranks = hosts == profile_.hosts && ranks_.per_host == profile_.ranks_per_host;
  if (measured_links_ && same_ranks) return {.link = profile_.sums_of_all.curve().at(bytes), .sent_bytes = all};
  return {.copying = shared, .link = phases * messages(0, sent, hosts - 1).link, .sent_bytes = all};
}

ExchangeCost Network::slices(double bytes) const {
  const double slice = bytes / ranks_.all(), own = ranks_.per_host, others = ranks_.all() - ranks_.per_host;
  const ExchangeCost once = messages(own * (own - 1) * slice, own * others * slice, ranks_.hosts - 1);
  return {2 * once.copying, 2 * once.link, 2 * once.sent_bytes};
}

ExchangeCost Network::gather(double bytes) const {
  const double own = ranks_.per_host, others = ranks_.all() - ranks_.per_host;
  return messages(own * (own - 1) * bytes, own * others * bytes, ranks_.hosts - 1);
}

ExchangeCost Network::neighbours(const strategies::Exchange& exchange, double bytes) const {
  const int all = ranks_.all(), own = ranks_.per_host;
  if (exchange.rounds == 0) {  // with a rank that is drawn
    const double outside = static_cast<double>(all - own) / (all - 1);
    ExchangeCost cost = messages(own * (1 - outside) * bytes, own * outside * bytes, own);
    if (exchange.answer > 0) cost.sent_bytes *= static_cast<double>(exchange.begin) / exchange.answer;
    return cost;
  }
  ExchangeCost mean;
  for (int round = 0; round < exchange.rounds; ++round) {
    Receivers receivers;
    for (int rank = 0; rank < own; ++rank) {  // of the first host: the others are like it
      for (const int to : exchange.receivers(round, rank)) (to < own ? receivers.inside : receivers.outside) += 1;
    }
    const ExchangeCost cost =
        messages(receivers.inside * bytes, receivers.outside * bytes, static_cast<int>(receivers.outside));
    mean.copying += cost.copying / exchange.rounds;
    mean.link += cost.link / exchange.rounds;
    mean.sent_bytes += cost.sent_bytes / exchange.rounds;
  }
  return mean;
}

/// Where the ranks are not all those of a host that was measured, messages take it to the ranks and back.
ExchangeCost Network::sum_of_layers(double bytes) const {
  const Curve measured = profile_.sums_of_layers.curve();
  const bool same_ranks = ranks_.hosts == 1 && ranks_.per_host == profile_.ranks_per_host;
  return same_ranks && !measured.empty() ? ExchangeCost{.copying = measured.at(bytes)} : slices(bytes);
}

/// Every rank has a shard, and its worker sends to all others.
ExchangeCost Network::serve(double bytes) const {
  const double shard = bytes / ranks_.all(), own = ranks_.per_host, others = ranks_.all() - ranks_.per_host;
  return messages(own * (own - 1) * shard, own * others * shard, ranks_.hosts - 1);
}

ExchangeCost Network::cost(const strategies::Exchange& exchange, double bytes) const {
  if (ranks_.all() == 1) return {};
  switch (exchange.pattern) {
    case strategies::Pattern::sum:
      return sum(bytes);
    case strategies::Pattern::slices:
      return slices(bytes);
    case strategies::Pattern::gather:
      return gather(bytes);
    case strategies::Pattern::neighbours:
      return neighbours(exchange, bytes);
    case strategies::Pattern::serve:
      return serve(bytes);
  }
  return {};
}

}  // namespace unisono::planning
