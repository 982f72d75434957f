#include "cpu/races.hpp"
#include "unisono/kernels/in_place.hpp"

namespace unisono::kernels {

UNISONO_RACES_BY_DESIGN void read_shared(const float* shared, float* own, Index n) {
  for (Index i = 0; i < n; ++i) own[i] = shared[i];
}

UNISONO_RACES_BY_DESIGN void add_to_shared(const float* before, const float* after, float* shared, Index n) {
  for (Index i = 0; i < n; ++i) {
    const float now = shared[i];
    shared[i] = now == before[i] ? after[i] : now + (after[i] - before[i]);
  }
}

}  // namespace unisono::kernels
