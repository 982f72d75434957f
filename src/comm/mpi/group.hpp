#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

namespace unisono::comm::mpi {

/// The ranks of one communicator.
struct Group {
  std::uint64_t id = 0;      ///< equal on all its ranks, and unique to the group
  std::vector<int> members;  ///< ranks of the job, by rank of the group
  double timeout_seconds = 0;
  std::atomic<std::uint64_t> begun = 0;  ///< collectives that this rank has begun
};

/// What a rank waits for.
struct Place {
  static constexpr int kNobody = -1;
  const Group& group;
  std::string_view name;       ///< "allreduce_sum"
  std::uint64_t sequence = 0;  ///< the collective's number in its group, from 1; 0: a message
  int peer = kNobody;          ///< of a message: the other side's rank in the job; kNobody: several of them
};

/// Throws CommunicationError where a call of MPI has failed.
/// \param call its name, for the message
void check(int code, const char* call, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace unisono::comm::mpi
