#pragma once

#include <string>

namespace unisono::session {

/// What a process may take by its resource limits, in bytes; infinite where there is none.
struct ProcessLimits {
  double data = 0;           ///< RLIMIT_DATA
  double address_space = 0;  ///< RLIMIT_AS
};

/// Those of this process.
ProcessLimits limits_of_this_process();

/// Bytes that this rank may still take: the least of what is left of its control group, of its resource limits and of
/// the node's memory. Ranks of a node share the node's and the group's equally. Infinite where nothing is known.
/// \param root prefix of /proc and /sys, for tests
double free_memory_bytes(int ranks_of_node, const ProcessLimits& limits = limits_of_this_process(),
                         const std::string& root = "");

}  // namespace unisono::session
