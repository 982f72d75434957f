#pragma once

#include <optional>

#include "set/fold.hpp"
#include "sparse/schema.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// The info of a set that is not a table, from its schema and some of its values. If the file does not state the
/// numbers of users and items, they are counted and set in the schema. \throws DataError
/// \param division of the training examples, where whole groups are held out
DatasetInfo sparse_info(const hdf5::File& file, SparseSchema& schema, const DataSettings& settings,
                        const std::optional<GroupDivision>& division);

/// Refuses settings that only tables have. \throws ConfigError
void check_settings(const DataSettings& settings, const SparseSchema& schema);

/// Refuses to scale more columns than checkpoints have factors for. \throws ConfigError
void require_few_columns(const DataSettings& settings, const SparseSchema& schema);

}  // namespace unisono::data
