#pragma once

#include <array>

#include "dense/schema.hpp"
#include "order/schedule.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

inline constexpr std::int64_t kDefaultWindowBytes = 256 << 20;  ///< data.window_bytes = 0

/// All that is decided about a set before its features are read.
struct SetPlan {
  SetPlan() = default;
  SetPlan(const SetPlan&) = delete;  // it points into itself
  SetPlan& operator=(const SetPlan&) = delete;

  SetSchema schema;
  std::array<FileRows, 3> positions;           ///< by Split: the rows of its examples in `groups`
  std::array<const GroupSchema*, 3> groups{};  ///< by Split: the group that has its examples; null: it is empty
  DatasetInfo info;
  Preprocessing preprocessing;    ///< complete except for the normalisation
  std::int64_t window_bytes = 0;  ///< streaming: memory of the window, over all ranks

  /// The number of a group in `schema.groups`.
  std::size_t home(const GroupSchema& group) const {
    std::size_t i = 0;
    while (!schema.groups[i] || &*schema.groups[i] != &group) ++i;
    return i;
  }
  const GroupSchema* group(Split split) const { return groups[static_cast<std::size_t>(split)]; }
  const FileRows& rows(Split split) const { return positions[static_cast<std::size_t>(split)]; }
};

/// The normalisation that the config asks for; `automatic` becomes `none` if the set's recipe scales nothing.
NormalizationKind normalization_of(const DataSettings& settings, const Recipe& recipe);

/// What the file must have. \param trained the preprocessing of a trained model: the file then needs neither a training
/// group nor labels; null: there is none
SchemaRules rules_of(const DataSettings& settings, const Preprocessing* trained);

/// Decides whether the set becomes resident or is streamed; the same on all ranks. Collective.
void choose_reader(SetPlan& plan, const DataSettings& settings, const NodeShare& share, Agreement& agreement);

/// Called if some node has no shared memory for one copy: decides whether each rank loads its own copy or the set is
/// streamed. Collective. \param shared whether this rank's node has shared memory
void reconsider_reader(SetPlan& plan, const DataSettings& settings, const NodeShare& share, bool shared,
                       Agreement& agreement);

/// Decides which examples belong to which split, counts classes, and fills `info`. Collective.
/// \throws ConfigError if settings do not fit the file, DataError for invalid labels
/// \param trained a trained model's preprocessing; null: it is fitted on the training examples
void complete_plan(SetPlan& plan, const hdf5::File& file, const DataSettings& settings, const Preprocessing* trained,
                   const NodeShare& share, Agreement& agreement);

}  // namespace unisono::data
