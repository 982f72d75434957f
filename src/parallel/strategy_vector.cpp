#include "unisono/parallel/strategy_vector.hpp"

#include <algorithm>

namespace unisono::parallel {

int vectors_of_parameters(const std::vector<StateVector>& vectors) {
  return static_cast<int>(std::ranges::count(vectors, StateOf::parameters, &StateVector::of));
}

}  // namespace unisono::parallel
