#pragma once

#include <cstdint>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"

namespace unisono::strategies {

/// Rows of a block that a rank holds: of its canonical form rows first, first + step, … They are stored in the rank's
/// vector from float `offset` on, each Block::row_stride() behind the one before.
struct HeldRows {
  std::size_t block = 0;  ///< its number in the layout
  Index first = 0, step = 1, count = 0;
  Index offset = 0;
};

/// How a strategy divides a model's parameters among the ranks, none of which then holds them all.
class Division {
 public:
  virtual ~Division() = default;
  /// Floats of this rank's memory for θ.
  virtual Index size() const = 0;
  /// From now on this rank holds what it has to at the beginning of a step: to give initial or stored values to.
  virtual void begin(std::int64_t step) = 0;
  /// What this rank holds now; the ranks together hold each row once.
  virtual std::vector<HeldRows> held() const = 0;
  virtual void initialise(std::uint64_t seed, MutableView parameters) const = 0;
  /// Adds the losses of this rank's part of a split. Collective; every rank holds the same afterwards as before.
  virtual void evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) = 0;
};

}  // namespace unisono::strategies
