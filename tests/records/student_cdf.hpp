#pragma once

#include "student.hpp"

namespace unisono::records {

/// P(T ≤ t) for T with so many degrees of freedom.
inline double student_cdf(double t, double freedom) {
  const double tail = 0.5 * student_two_sided(t, freedom);
  return t > 0 ? 1 - tail : tail;
}

}  // namespace unisono::records
