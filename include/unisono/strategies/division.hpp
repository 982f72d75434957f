#pragma once

#include <cstdint>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"

namespace unisono {

/// Rows of a block of θ that a rank holds, and where: row `series.first` of the block begins at float `offset` of the
/// rank's own memory, and each further one of the series a row's stride behind the one before.
struct HeldRows {
  std::size_t block = 0;  ///< of ParameterLayout::blocks()
  RowSeries series;
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
  virtual void evaluate(EvaluationSource& source, MutableView parameters, LossSums& sums) = 0;
};

}  // namespace unisono
