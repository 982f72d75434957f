#include "unisono/records/class_reading.hpp"

#include <algorithm>

namespace unisono::records {

std::int32_t ClassReading::class_of(View row) const {
  if (outputs == 1) return row.front() > (probabilities ? 0.5F : 0.0F) ? 1 : 0;
  return static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

double ClassReading::confidence(View row) const {
  const double largest = *std::max_element(row.begin(), row.end());
  return outputs == 1 ? std::max(largest, 1 - largest) : largest;
}

}  // namespace unisono::records
