#pragma once

#include <string>

namespace unisono {

/// Appends the trailer: a mark and the hash of all bytes before it. \throws OutputError
void seal_file(const std::string& path);

/// Whether the file ends in the trailer of its own bytes; else what is wrong with it, for a message. Empty: nothing.
std::string broken_seal(const std::string& path);

/// Writes the file's bytes through to the disk, gives it its name, and writes the folder through. \throws OutputError
void sync_and_rename(const std::string& from, const std::string& to);

/// `second` names the same bytes as `first` (a hard link, or a copy where the file system has none); replaces it.
/// \throws OutputError
void link_file(const std::string& first, const std::string& second);

}  // namespace unisono
