#pragma once

#include <string>

namespace unisono::data {

/// What a set holds, as text of some lines: groups, shapes, types, chunking, ranges, class balance, a few images.
/// \throws DataError where the file is no set
std::string describe_set(const std::string& path);

}  // namespace unisono::data
