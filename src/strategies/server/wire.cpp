#include "server/wire.hpp"

#include <algorithm>

namespace unisono::strategies {

/// A tag that is different for all messages between the same two ranks.
int Wire::tag(int worker, int server, Channel channel) const {
  const int channels = static_cast<int>(Channel::pulled_statistics) + 1;
  return (roles_.place_of_worker(worker) * most_servers_ + roles_.place_of_server(server)) * channels +
         static_cast<int>(channel);
}

comm::RequestPtr Wire::send_to_server(int worker, int server, Channel channel, std::span<const std::byte> bytes) {
  return communicator_.start_send(bytes, roles_.rank_of_server(server), tag(worker, server, channel));
}

comm::RequestPtr Wire::receive_from_server(int worker, int server, Channel channel, std::span<std::byte> bytes) {
  return communicator_.start_receive(bytes, roles_.rank_of_server(server), tag(worker, server, channel));
}

comm::RequestPtr Wire::send_to_worker(int worker, int server, Channel channel, std::span<const std::byte> bytes) {
  return communicator_.start_send(bytes, roles_.rank_of_worker(worker), tag(worker, server, channel));
}

comm::RequestPtr Wire::receive_from_worker(int worker, int server, Channel channel, std::span<std::byte> bytes) {
  return communicator_.start_receive(bytes, roles_.rank_of_worker(worker), tag(worker, server, channel));
}

namespace {

std::vector<int> places_of(int rank, const std::vector<int>& ranks) {
  std::vector<int> places;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank) places.push_back(static_cast<int>(i));
  }
  return places;
}

/// How many of the lower numbers are on the same rank.
int place_of(int number, const std::vector<int>& ranks) {
  const auto own = ranks.begin() + number;
  return static_cast<int>(std::count(ranks.begin(), own, *own));
}

}  // namespace

/// Rank 0 always has a worker. Servers are spaced evenly, so if ranks are numbered node by node, every node gets its
/// share.
Roles Roles::of_ranks(int ranks, int servers) {
  Roles roles;
  for (int server = 0; server < servers; ++server) {
    const long long share = static_cast<long long>(server + 1) * ranks;
    roles.servers_.push_back(static_cast<int>((share + servers - 1) / servers) - 1);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (servers == 0) roles.servers_.push_back(rank);
    const bool serves = std::find(roles.servers_.begin(), roles.servers_.end(), rank) != roles.servers_.end();
    if (servers == 0 || !serves) roles.workers_.push_back(rank);
  }
  return roles;
}

Roles Roles::dealt(int ranks, int workers, int servers) {
  Roles roles;
  for (int worker = 0; worker < workers; ++worker) roles.workers_.push_back(worker % ranks);
  for (int server = 0; server < servers; ++server) roles.servers_.push_back((workers + server) % ranks);
  return roles;
}

int Roles::place_of_worker(int worker) const { return place_of(worker, workers_); }
int Roles::place_of_server(int server) const { return place_of(server, servers_); }

int Roles::most_servers_of_a_rank() const {
  int most = 0;
  for (int server = 0; server < servers(); ++server) most = std::max(most, place_of_server(server) + 1);
  return most;
}

std::vector<int> Roles::workers_of(int rank) const { return places_of(rank, workers_); }
std::vector<int> Roles::servers_of(int rank) const { return places_of(rank, servers_); }

}  // namespace unisono::strategies
