#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace unisono::comm::mpi {

/// A variable of the environment; empty where it is not set.
using Environment = std::function<std::string(const char* name)>;
Environment process_environment();

/// What is wrong with how this process was started, if MPI sees `size` ranks: the launcher says that it is one of more.
/// Empty where all is well. A shell inside a Slurm allocation is no task of it, however many tasks the allocation has.
std::string launch_problem(const Environment& environment, int size);

/// Whether this process is the first one of the launcher, or was started without a launcher.
bool is_first_of_launch(const Environment& environment);

/// Whether this process is the launcher's first one on its node, or was started without a launcher.
bool is_first_of_node(const Environment& environment);

/// Where the other ranks of the job are, as the launcher's environment variables say.
enum class Peers {
  none,          ///< nobody launched this process: it is alone
  on_this_node,  ///< Open MPI's mpirun started all ranks on this node
  unknown
};
Peers launched_peers(const Environment& environment);

/// Whether more ranks were started on this node than cores may run them, as far as Open MPI's launcher says.
bool launched_more_ranks_than_cores(const Environment& environment, int allowed_cores, int all_cores);

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
