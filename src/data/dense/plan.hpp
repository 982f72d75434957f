#pragma once

#include <array>

#include "dense/schema.hpp"
#include "order/row_runs.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// What is decided about a set before its features are read.
struct SetPlan {
  SetPlan() = default;
  SetPlan(const SetPlan&) = delete;  // it points into itself
  SetPlan& operator=(const SetPlan&) = delete;

  SetSchema schema;
  std::array<RowRuns, 3> positions;            ///< by Split: its examples' rows in …
  std::array<const GroupSchema*, 3> groups{};  ///< by Split: … this group; null: the split is empty
  DatasetInfo info;
  Preprocessing preprocessing;    ///< but for the normalisation
  std::int64_t window_bytes = 0;  ///< streaming; over all ranks

  const GroupSchema* group(Split split) const { return groups[static_cast<std::size_t>(split)]; }
  const RowRuns& rows(Split split) const { return positions[static_cast<std::size_t>(split)]; }
};

/// What the config leaves to the set's recipe is decided: none where that has nothing to scale.
NormalizationKind normalization_of(const DataSettings& settings, const Recipe& recipe);

/// \param trained whether a trained model brings its normalisation: the file then needs less
SchemaRules rules_of(const DataSettings& settings, bool trained);

/// Decides whether the set becomes resident; the same on all ranks. Collective.
void choose_reader(SetPlan& plan, const DataSettings& settings, const NodeShare& share, Agreement& agreement);

/// When the node cannot hold one copy for all its ranks: whether each may have its own, or the set is streamed.
/// Collective. \param shared whether this rank's node has one copy
void reconsider_reader(SetPlan& plan, const DataSettings& settings, const NodeShare& share, bool shared,
                       Agreement& agreement);

/// Decides which examples are for what, counts classes, and fills `info`. Collective.
/// \throws ConfigError where settings do not fit the file, DataError for labels that are none
/// \param trained a trained model's preprocessing; null: it is fitted on the training examples
void complete_plan(SetPlan& plan, const hdf5::File& file, const DataSettings& settings, const Preprocessing* trained,
                   const NodeShare& share, Agreement& agreement);

}  // namespace unisono::data
