#pragma once

#include <string>

namespace unisono::data::hdf5 {

/// Before the library opens a file: walks its groups, the headers of its objects and the trees of its chunks, as far as
/// they have the format of before 1.8, which is the default and has no checksums, and looks at what the library (1.10)
/// trusts: sizes and addresses in local heaps, trees and layouts. Other damage is left for the library to find.
/// \throws DataError of what is wrong, without a path
void check_structure(const std::string& path);

}  // namespace unisono::data::hdf5
