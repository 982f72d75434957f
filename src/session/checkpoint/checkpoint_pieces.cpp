#include "checkpoint/checkpoint_pieces.hpp"

#include <algorithm>
#include <cstring>

namespace unisono::session {
namespace {

constexpr std::size_t kPacketBytes = 1 << 20;
constexpr int kPacketSizeTag = 0, kPacketTag = 1;

struct PieceHeader {
  std::uint64_t at = 0, bytes = 0;  ///< place in the file, length
};

/// Waits for a message, asleep: the rank trains meanwhile.
void wait_asleep(comm::Communicator& messages, comm::RequestPtr request) {
  comm::Request* const one[] = {request.get()};
  messages.wait_any(one, [] { return false; });
  request->wait();
}

}  // namespace

void Packets::add(std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (packet_.size() + sizeof(PieceHeader) >= kPacketBytes) pass_on();
    const std::size_t room = kPacketBytes - packet_.size() - sizeof(PieceHeader);
    const auto piece = bytes.first(std::min(bytes.size(), room));
    PieceHeader header{at, piece.size()};
    const auto bytes_of_header = comm::bytes_of(header);
    packet_.insert(packet_.end(), bytes_of_header.begin(), bytes_of_header.end());
    packet_.insert(packet_.end(), piece.begin(), piece.end());
    bytes = bytes.subspan(piece.size());
    at += piece.size();
  }
}

void Packets::finish() {
  if (!packet_.empty()) pass_on();
}

void Packets::pass_on() {
  see_(packet_);
  packet_.clear();
}

void for_each_piece(std::span<const std::byte> packet, const WriteBytes& write) {
  while (!packet.empty()) {
    PieceHeader header;
    std::memcpy(&header, packet.data(), sizeof(header));
    write(header.at, packet.subspan(sizeof(header), header.bytes));
    packet = packet.subspan(sizeof(header) + header.bytes);
  }
}

void send_packet(comm::Communicator& messages, std::span<const std::byte> packet, int to) {
  std::uint64_t size = packet.size();
  wait_asleep(messages, messages.start_send(comm::bytes_of(size), to, kPacketSizeTag));
  if (size > 0) wait_asleep(messages, messages.start_send(packet, to, kPacketTag));
}

std::vector<std::byte> receive_packet(comm::Communicator& messages, int from) {
  std::uint64_t size = 0;
  wait_asleep(messages, messages.start_receive(comm::bytes_of(size), from, kPacketSizeTag));
  std::vector<std::byte> packet(size);
  if (size > 0) wait_asleep(messages, messages.start_receive(packet, from, kPacketTag));
  return packet;
}

}  // namespace unisono::session
