#pragma once

#include <variant>

#include "dense/plan.hpp"
#include "dense/rows.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Where a group's features are: in a file, or all of them in memory.
using StoredRows = std::variant<const hdf5::File*, const RowBlock*>;

/// Computes the normalisation from a set's training examples; the ranks of a node divide the work. Collective.
/// \param training the rows of the group that has the training examples
Normalization training_statistics(NormalizationKind kind, const SetPlan& plan, StoredRows training,
                                  const NodeShare& share, Agreement& agreement);

}  // namespace unisono::data
