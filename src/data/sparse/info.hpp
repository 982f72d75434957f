#pragma once

#include "sparse/schema.hpp"

namespace unisono::data {

/// What a set that is no table holds, by its schema and some of its values. The schema is given the numbers of users
/// and items where the file leaves them open. \throws DataError
DatasetInfo sparse_info(const hdf5::File& file, SparseSchema& schema, const DataSettings& settings);

/// How often each word occurs; empty where the file does not say. \throws DataError
std::vector<std::int64_t> word_counts(const hdf5::File& file, const SparseSchema& schema);

}  // namespace unisono::data
