#pragma once

#include <cstdint>
#include <string>

namespace unisono::comm::mpi {

/// Open MPI's shared memory consists of files (segments), which remain when processes are killed:
/// vader_segment.HOST.USER.JOB.RANK for messages, osc_sm.HOST.JOB.RANK.WINDOW for windows; JOB is hexadecimal.
inline constexpr const char* kSharedMemoryFolder = "/dev/shm";

/// Removes this user's segments that no process, of this program or another, has open or mapped. Does nothing where the
/// folder is not a tmpfs: elsewhere it is not certain who uses a file.
void remove_dead_segments(const std::string& folder = kSharedMemoryFolder);

/// Removes the segments of one job, which is about to end. Processes that have them mapped can still use them.
/// \param job PMIX_NAMESPACE, where it is a number
void remove_segments_of(const std::string& job, const std::string& folder = kSharedMemoryFolder);

}  // namespace unisono::comm::mpi
