#pragma once

#include <cstdint>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::strategies {

/// How a strategy divides a model's parameters among the ranks, none of which then holds them all.
class Division {
 public:
  virtual ~Division() = default;
  /// Floats of this rank's memory for θ.
  virtual Index size() const = 0;
  /// From now on this rank holds what it has to at the beginning of a step: to give initial or stored values to.
  virtual void begin(std::int64_t step) = 0;
  /// Who holds what now, each row once.
  virtual ShardMap map() const = 0;
  /// Where this rank's shards begin in its memory, in the map's order: floats from the start. Rows lie one stride of
  /// their block behind each other.
  virtual std::vector<Index> offsets() const = 0;
  virtual void initialise(std::uint64_t seed, MutableView parameters) const = 0;
  /// Adds the losses of this rank's part of a split. Collective; every rank holds the same afterwards as before.
  virtual void evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) = 0;
};

}  // namespace unisono::strategies
