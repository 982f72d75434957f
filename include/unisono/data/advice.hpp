#pragma once

#include <string>

namespace unisono::data {

/// Says how a set is stored, what streaming would read at a time and how fast that is here, whether examples are sorted
/// by class, and what to change, for `unisono data describe --advise`. \throws DataError
std::string advise_on_set(const std::string& path, bool external_files = false);

}  // namespace unisono::data
