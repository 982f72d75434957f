#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "unisono/models/model.hpp"

namespace unisono::models {

/// The value of the metric of that name; NaN where there is none.
inline double metric(const std::vector<Metric>& metrics, const std::string& name) {
  for (const Metric& one : metrics) {
    if (one.name == name) return one.value;
  }
  return std::nan("");
}

}  // namespace unisono::models
