#pragma once

#include <vector>

#include "unisono/models/in_place.hpp"

namespace unisono::models {

class LinearScratch final : public Scratch {
 public:
  RowLocks::Set rows;
  std::vector<float> answers;
};

/// In θ; null for a negative offset.
inline float* pointer_at(Index offset, MutableView values) { return offset < 0 ? nullptr : values.data() + offset; }

}  // namespace unisono::models
