#pragma once

#include <span>

#include "dense/schema.hpp"
#include "order/schedule.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Fits a recipe's columns on the training examples: the values imputed for missing numbers, and the levels of
/// categories. Rank 0 reads the examples, if anything depends on them; all ranks get the same result. Collective.
/// \param group with raw values \param rows the training examples
/// \throws DataError naming a column without a value in any training example
std::vector<FittedColumn> fit_columns(const Recipe& recipe, const hdf5::File& file, const GroupSchema& group,
                                      const FileRows& rows, Agreement& agreement);

/// Whether anything that is fitted on the columns' values decides how they are encoded or scaled.
bool needs_values(const Recipe& recipe);

/// The same as fit_columns, of a group's raw values in memory, for this process alone.
/// \param raw [all rows of the group, columns] \param path of the file, for messages
std::vector<FittedColumn> fit_columns(const Recipe& recipe, std::span<const float> raw, const FileRows& rows,
                                      const std::string& path);

/// The normalisation that scales the features of number columns as the recipe says, and leaves one-hot features as they
/// are.
/// \param standard mean and deviation of each feature, if the scaling is standard
Normalization scale_columns(const Recipe& recipe, const std::vector<FittedColumn>& columns,
                            const Normalization& standard);

}  // namespace unisono::data
