#pragma once

#include <optional>
#include <string>

#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// What a sparse set holds, as text of some lines; nothing where the file is no sparse set. Reads all of it.
/// \throws DataError where it is one, but not as docs/data-format.md says
std::optional<std::string> describe_sparse(const hdf5::File& file);

// One of each kind.
std::string describe_csr(const hdf5::File& file);
std::string describe_ratings(const hdf5::File& file);
std::string describe_text(const hdf5::File& file);
std::string describe_cooccurrences(const hdf5::File& file);

}  // namespace unisono::data
