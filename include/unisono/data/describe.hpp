#pragma once

#include <string>

namespace unisono::data {

/// Describes a set in some lines of text, for `unisono data describe`: groups, shapes, types, chunking, ranges, class
/// balance, a few images.
/// \throws DataError if the file is not a data set
std::string describe_set(const std::string& path);

}  // namespace unisono::data
