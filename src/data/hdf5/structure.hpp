#pragma once

#include <string>

namespace unisono::data::hdf5 {

/// Called before the library opens a file: walks its groups, object headers and chunk trees, if they have the format
/// from before 1.8 (the default, which has no checksums), and checks what the library (1.10) trusts: sizes and
/// addresses in local heaps, trees and layouts. Other damage is found by the library.
/// \throws DataError, without a path in the message
void check_structure(const std::string& path);

}  // namespace unisono::data::hdf5
