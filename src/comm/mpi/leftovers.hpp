#pragma once

#include <cstdint>
#include <string>

namespace unisono::comm::mpi {

/// Open MPI's shared memory is files, which stay where processes are killed: vader_segment.HOST.USER.JOB.RANK of its
/// messages, osc_sm.HOST.JOB.RANK.WINDOW of windows; JOB in hexadecimal.
inline constexpr const char* kSharedMemoryFolder = "/dev/shm";

/// Removes those of this user that no process, of this program or another, has open or mapped any more. Does nothing
/// where the folder is not in memory: only there is it certain who uses a file.
void remove_dead_segments(const std::string& folder = kSharedMemoryFolder);

/// Removes those of one job, which is about to end: whoever has them mapped keeps them for as long as it lives.
/// \param job PMIX_NAMESPACE, where it is a number
void remove_segments_of(const std::string& job, const std::string& folder = kSharedMemoryFolder);

}  // namespace unisono::comm::mpi
