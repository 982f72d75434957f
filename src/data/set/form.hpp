#pragma once

#include "dense/plan.hpp"
#include "set/agreement.hpp"

// The form of a set's examples as a model sees them: features after the recipe, and numbering of the classes.

namespace unisono::data {

/// Upper bound on the features into which a recipe's columns are encoded, whatever levels the training examples
/// contain.
Index most_features(const Recipe& recipe);

/// Sets the groups' feature shapes to an upper bound, from which the memory for the set is computed.
void reserve_features(SetSchema& schema, const Preprocessing* trained);

/// Maps a file's labels to a trained model's classes, by name: for each stored label the model's class, or −1 if it has
/// none of that name. Empty if one of the two has no names, or if both have the same.
std::vector<std::int32_t> classes_of(const std::vector<std::string>& trained, const std::vector<std::string>& stored);

/// Checks that a set has the same kind of table as the one that a model was trained on. \throws DataError saying what
/// is different and what to do
void require_form(const Preprocessing& trained, SetSchema& schema);

/// Decides how the set's examples are preprocessed: as for the trained model or, without one, as fitted on the set's
/// own training examples. Afterwards the groups have the features that a model sees, except for the normalisation.
/// Collective. \pre the examples are split \param trained null: there is no trained model
void settle_form(SetPlan& plan, const hdf5::File& file, const Preprocessing* trained, Agreement& agreement);

}  // namespace unisono::data
