#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/comm/communicator.hpp"

// What ranks find out together about a file. All are collective, and tell every rank the same.

namespace unisono::experiment {

inline constexpr std::string_view kMustBeShared =
    "each rank holds a part of the state, but not all ranks can see this folder; choose one on a file system that all "
    "nodes share (--output)";

/// Whether every rank finds the file that rank 0 finds under this path: as large, and with the same end.
bool all_see(comm::Communicator& world, const std::string& path);

/// The hashes of all segments, of which rank r < readers brings its own: numbers r, r + readers, … (see hash_segments)
std::vector<std::uint64_t> gather_hashes(comm::Communicator& world, const std::vector<std::uint64_t>& own, int readers);

/// What is wrong with a file that should be sealed, for a message; empty: nothing. Ranks [0, readers) read it.
std::string broken_seal(comm::Communicator& world, const std::string& path, int readers);

}  // namespace unisono::experiment
