#include "server/wire.hpp"

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

}  // namespace unisono::strategies
