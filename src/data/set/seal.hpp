#pragma once

#include <string>

// A set that this program made ends in a seal, behind HDF5's last byte: the hashes of its segments of 64 MiB (8 bytes
// each), 17 bytes that say so, and the hash of these hashes. So a part of a large set can be checked alone. HDF5 passes
// over it, and takes it off where it opens a file to write: what h5py changed has no seal.

namespace unisono::data {

/// Seals a file that is complete and closed. \throws OutputError
void seal_set(const std::string& path);

/// Before HDF5 sees a set: of one that is sealed, up to 4 segments are compared with their hashes (all of a set of up
/// to 256 MiB; else the first, the last, and two between), divided among the ranks of a node. Once in a process for a
/// file that does not change. \throws DataError where it was changed; nothing where it has no seal, or cannot be read
void check_seal(const std::string& path, int node_rank = 0, int node_size = 1);

}  // namespace unisono::data
