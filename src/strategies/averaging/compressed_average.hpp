#pragma once

#include "unisono/parallel/compressed_blocks.hpp"
#include "unisono/parallel/compressed_changes.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The mean of the ranks' θ from compressed differences; compressed_average.cpp has the formula.
class CompressedAverage {
 public:
  /// \param residual kept by the run, as θ \param start θ₀: what all ranks held after the last average
  CompressedAverage(TrainContext& run, const parallel::CompressionSettings& settings, MutableView residual, View start);

  /// θ ← about Σ_r weight_r θ_r / Σ_r weight_r, with the same bits on all ranks. Collective.
  /// \param step of the run, that is made
  void average(double weight, std::int64_t step);

 private:
  void take_residual();

  TrainContext& run_;
  parallel::CompressedBlocks blocks_;
  parallel::CompressedChanges changes_;
  MutableView residual_;
  View start_;
};

}  // namespace unisono::strategies
