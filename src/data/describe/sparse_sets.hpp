#pragma once

#include <optional>
#include <string>

#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// Describes a set that is not a table, in some lines of text; nothing if the file is not such a set. Reads all of it.
/// \throws DataError if it violates docs/data-format.md
std::optional<std::string> describe_sparse(const hdf5::File& file);

// One of each kind.
std::string describe_csr(const hdf5::File& file);
std::string describe_ratings(const hdf5::File& file);
std::string describe_text(const hdf5::File& file);
std::string describe_cooccurrences(const hdf5::File& file);

}  // namespace unisono::data
