#pragma once

#include <string>

// The checksum of a set's file. A set made by this program ends in a seal, after HDF5's last byte: the hashes of the
// file's segments of 64 MiB (8 bytes each), a mark of 17 bytes, and the hash of these hashes. So a part of a large set
// can be checked alone. HDF5 ignores the seal when it reads, and truncates it when it opens the file for writing: a
// file changed by h5py has no seal.

namespace unisono::data {

/// Appends the seal to a file that is complete and closed. \throws OutputError
void seal_set(const std::string& path);

/// Called before HDF5 opens a set: compares up to 4 segments of a sealed file with their hashes (all of a file of up to
/// 256 MiB; else the first, the last, and two in between), divided among the node's ranks. A process checks an
/// unchanged file once. Does nothing for a file that has no seal or cannot be read. \throws DataError if the file was
/// changed
void check_seal(const std::string& path, int node_rank = 0, int node_size = 1);

}  // namespace unisono::data
