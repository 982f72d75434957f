#pragma once

#include <functional>
#include <string>

#include "dense/plan.hpp"
#include "dense/resident.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Computes the normalisation from a set's training examples; the ranks of a node divide the work. Collective.
/// \param resident null: the features are read from the file
Normalization training_statistics(NormalizationKind kind, const hdf5::File& file, const SetPlan& plan,
                                  const SharedRows* resident, const NodeShare& share, Agreement& agreement);

}  // namespace unisono::data
