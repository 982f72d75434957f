#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

namespace unisono::mpi {

/// Bytes; MPI counts in ints.
inline constexpr std::size_t kLongestMessage = std::size_t{1} << 30;

/// Messages under way, of any length: long ones go in several.
class Transfers {
 public:
  Transfers() = default;
  /// Gives up what is still under way: receives are cancelled, so that nothing writes into their memory any more.
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(std::span<const std::byte> bytes, MPI_Comm communicator, int peer, int tag);
  void receive(std::span<std::byte> bytes, MPI_Comm communicator, int peer, int tag);

  /// Whether all have arrived; never waits.
  bool test();

 private:
  std::vector<MPI_Request> sends_, receives_;
};

}  // namespace unisono::mpi
