#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

namespace unisono::comm::mpi {

/// Bytes of one message of MPI, which counts in ints.
inline constexpr std::size_t kLongestMessage = std::size_t{1} << 30;

/// Messages under way, of any length: long ones are sent as several of MPI's.
class Transfers {
 public:
  Transfers() = default;
  /// Forgets what is still under way: only for messages that no peer will ever ask for or send (see let_go).
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(std::span<const std::byte> bytes, MPI_Comm communicator, int peer, int tag);
  void receive(std::span<std::byte> bytes, MPI_Comm communicator, int peer, int tag);

  /// Whether all have arrived; never waits.
  bool test();
  /// Cancels what is not yet being received. \return whether nothing is under way any more; never waits
  bool let_go();

 private:
  std::vector<MPI_Request> sends_, receives_;
  bool cancelled_ = false;
};

}  // namespace unisono::comm::mpi
