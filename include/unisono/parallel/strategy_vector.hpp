#pragma once

#include <string>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::parallel {

/// Over which ranks the values of a strategy's vector differ.
enum class StateScope {
  common,   ///< over none: all ranks hold the same values
  replica,  ///< each replica of the model has its own
  rank      ///< each rank has its own
};

/// What a strategy's vector is laid out like: θ, or the running statistics.
enum class StateOf { parameters, statistics };

/// A vector that a strategy keeps from step to step. Checkpoints store one copy, or one for each replica or rank, by
/// its scope.
struct StateVector {
  std::string name;  ///< different from the names of all optimizers' vectors
  StateScope scope = StateScope::common;
  StateOf of = StateOf::parameters;
  /// Of vectors that differ: their sum over the ranks is what matters, so that a resumed run keeps it on another number
  /// of ranks. Of others, each rank takes the mean.
  bool adds_up = false;
};

/// How many of these are of θ's size.
int vectors_of_parameters(const std::vector<StateVector>& vectors);

/// A StateVector and its values, in the backend's memory.
struct StrategyVector {
  StateVector vector;
  Buffer values;
};

}  // namespace unisono::parallel
