#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/session/stored_checkpoint.hpp"

// Pieces of a checkpoint's file on their way to where they are written: a packet is a sequence of pieces, each of them
// its place in the file, its length and its bytes.
namespace unisono::session {

/// Collects pieces to packets of about 1 MiB.
class Packets {
 public:
  using See = std::function<void(std::span<const std::byte> packet)>;
  /// \param see is called with each packet that is full, and by `finish` with the rest
  explicit Packets(See see) : see_(std::move(see)) {}
  void add(std::uint64_t at, std::span<const std::byte> bytes);
  void finish();

 private:
  void pass_on();

  See see_;
  std::vector<std::byte> packet_;
};

/// Calls write(place in the file, bytes) for each piece of a packet.
void for_each_piece(std::span<const std::byte> packet, const WriteBytes& write);

// Messages of threads that work while the rank trains: they wait asleep.

/// Sends a packet; an empty one says that all have been sent.
void send_packet(comm::Communicator& messages, std::span<const std::byte> packet, int to);
/// \return empty: the rank has sent all
std::vector<std::byte> receive_packet(comm::Communicator& messages, int from);

}  // namespace unisono::session
