#pragma once

#include <cstdint>
#include <string>

#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// Checks that all ranks hold the same hash of something. Collective; all ranks throw alike.
/// \param what e.g. "config"
/// \param remedy what to do where they differ
/// \throws LaunchError naming the ranks that differ from the majority (in a tie, from rank 0), and their hosts
void require_same(comm::Communicator& group, const std::string& what, std::uint64_t hash, const std::string& remedy);

}  // namespace unisono::comm
