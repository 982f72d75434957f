#pragma once

#include <cstdint>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::parallel {

/// How a strategy shards θ: no rank holds all of it. What a rank holds may change from step to step (see `map`).
class Division {
 public:
  virtual ~Division() = default;
  /// Floats that this rank's memory for θ needs.
  virtual Index size() const = 0;
  /// From now on this rank's memory has the layout of the beginning of this step. No values are moved: the caller then
  /// writes stored values into it.
  virtual void begin(std::int64_t step) = 0;
  /// Which rank holds which rows now; each row has one holder.
  virtual ShardMap map() const = 0;
  /// Where this rank's shards begin in its memory, in the map's order: floats from the start. Consecutive rows of a
  /// shard are one stride of their block apart.
  virtual std::vector<Index> offsets() const = 0;
  /// Initial values of this rank's shards, the same as Model::initialise gives them.
  virtual void initialise(std::uint64_t seed, MutableView parameters) const = 0;
  /// Adds the losses of this rank's part of a split to `sums`. Collective; shards may travel meanwhile, but in the end
  /// every rank holds what it held before.
  virtual void evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) = 0;
};

}  // namespace unisono::parallel
