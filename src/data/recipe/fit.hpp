#pragma once

#include "dense/schema.hpp"
#include "order/row_runs.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Fits a recipe's columns on the training examples: what stands for missing numbers, which levels there are. One rank
/// reads them, and only where something depends on the values; all ranks get the same. Collective.
/// \param group of raw values \param rows those that are trained on
/// \throws DataError naming a column of which no training example has a value
std::vector<FittedColumn> fit_columns(const Recipe& recipe, const hdf5::File& file, const GroupSchema& group,
                                      const RowRuns& rows, Agreement& agreement);

/// The features of columns of numbers are scaled as the recipe says; the 0 and 1 of levels stay.
/// \param standard mean and deviation of each feature, where the scaling is standard
Normalization scale_columns(const Recipe& recipe, const std::vector<FittedColumn>& columns,
                            const Normalization& standard);

}  // namespace unisono::data
