#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/comm/communicator.hpp"

// Checks of a file by all ranks together. All are collective, with the same result on every rank.

namespace unisono::session {

inline constexpr std::string_view kMustBeShared =
    "each rank holds a part of the state, but not all ranks can see this folder; choose one on a file system that all "
    "nodes share (--output)";

/// Whether all ranks see the same file under this path, judged by its size and its last bytes.
bool all_see(comm::Communicator& group, const std::string& path);

/// Gathers the hashes of all segments. Rank r < readers contributes those of segments r, r + readers, … (see
/// hash_segments).
std::vector<std::uint64_t> gather_hashes(comm::Communicator& group, const std::vector<std::uint64_t>& own, int readers);

/// Verifies a file's seal; ranks [0, readers) read the file. \return what is wrong, for a message; empty if nothing is
std::string broken_seal(comm::Communicator& group, const std::string& path, int readers);

}  // namespace unisono::session
