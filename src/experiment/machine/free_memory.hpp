#pragma once

#include <functional>
#include <optional>
#include <string>

namespace unisono::experiment {

/// Where limits of memory are read; a test has its own.
struct MemoryFiles {
  /// The text of a file; nothing where there is no such file.
  std::function<std::optional<std::string>(const std::string& path)> read;
  double data_limit = 0;           ///< RLIMIT_DATA in bytes; infinite where there is none
  double address_space_limit = 0;  ///< RLIMIT_AS
};

/// Those of this process.
MemoryFiles memory_files_of_this_process();

/// Bytes that this rank may still take: the least of what is left of its control group, of its resource limits and of
/// the node's memory. Ranks of a node share the node's and the group's equally. Infinite where nothing is known.
double free_memory_bytes(const MemoryFiles& files, int ranks_of_node);

}  // namespace unisono::experiment
