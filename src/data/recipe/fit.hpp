#pragma once

#include "dense/schema.hpp"
#include "order/row_runs.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Fits a recipe's columns on the training examples: the values imputed for missing numbers, and the levels of
/// categories. Rank 0 reads the examples, if anything depends on them; all ranks get the same result. Collective.
/// \param group with raw values \param rows the training examples
/// \throws DataError naming a column without a value in any training example
std::vector<FittedColumn> fit_columns(const Recipe& recipe, const hdf5::File& file, const GroupSchema& group,
                                      const RowRuns& rows, Agreement& agreement);

/// The normalisation that scales the features of number columns as the recipe says, and leaves one-hot features as they
/// are.
/// \param standard mean and deviation of each feature, if the scaling is standard
Normalization scale_columns(const Recipe& recipe, const std::vector<FittedColumn>& columns,
                            const Normalization& standard);

}  // namespace unisono::data
