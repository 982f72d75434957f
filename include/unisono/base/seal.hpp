#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace unisono {

// A file ends in a trailer: 17 bytes that say whether it is sealed, and 8 that are the hash over the hashes of its
// segments of 64 MiB, or any number as long as it is not. So several processes can hash it together.

/// Appends the trailer of a file whose bytes are still to come. \param number that tells it from others
/// \throws OutputError
void append_open_trailer(const std::string& path, std::uint64_t number);

/// The hashes of segments `reader`, reader + readers, … \throws DataError where they cannot be read
std::vector<std::uint64_t> hash_segments(const std::string& path, int reader, int readers);

/// How many segments so many bytes have, and the hash of one of them. \throws DataError where it cannot be read
std::uint64_t count_segments(std::uint64_t bytes);
std::uint64_t hash_segment(const std::string& path, std::uint64_t bytes, std::uint64_t segment);

/// Puts the seal in the place of the open trailer. \param segments all segments' hashes \throws OutputError
void seal_file(const std::string& path, std::span<const std::uint64_t> segments);

/// What the end of a file says is wrong with it, for a message. Empty: it says that it is sealed.
std::string missing_seal(const std::string& path);
/// Whether it is sealed with these hashes.
bool fits_seal(const std::string& path, std::span<const std::uint64_t> segments);

/// Its size and its trailer, by which another process knows the same file; empty where it cannot be read.
std::string end_of_file(const std::string& path);

/// Writes the file's bytes through to the disk, gives it its name, and writes the folder through. \throws OutputError
void sync_and_rename(const std::string& from, const std::string& to);

/// `second` names the same bytes as `first` (a hard link, or a copy where the file system has none); replaces it.
/// \throws OutputError
void link_file(const std::string& first, const std::string& second);

}  // namespace unisono
