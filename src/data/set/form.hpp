#pragma once

#include "dense/plan.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// How many features a recipe's columns have at most, whichever levels the training examples have.
Index most_features(const Recipe& recipe);

/// Before the memory of a set is asked for: its groups have room for so many features.
void reserve_features(SetSchema& schema, const Preprocessing* trained);

/// What stored labels are called in the model that was trained: of each the model's class, or −1. Empty where one of
/// the two has no names, or both have the same.
std::vector<std::int32_t> classes_of(const std::vector<std::string>& trained, const std::vector<std::string>& stored);

/// A table of one kind with what a model was trained on. \throws DataError saying what is different and what to do
void require_form(const Preprocessing& trained, SetSchema& schema);

/// How the set's examples are read: as those that the model was trained on, or, without such a model, as its own
/// training examples say. From then on its groups have the features that a model sees, but for the normalisation.
/// Collective. \pre the examples are split \param trained null: there is no such model
void settle_form(SetPlan& plan, const hdf5::File& file, const Preprocessing* trained, Agreement& agreement);

}  // namespace unisono::data
