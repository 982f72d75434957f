#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/counters.hpp"

// What several strategies count. What one alone counts is declared in its own file.

namespace unisono::strategies {

/// Bytes of vectors that were averaged over all ranks, where there are several.
struct AveragedCounters {
  std::int64_t bytes = 0;

  void describe(CounterVisitor& visitor) { visitor.count({.name = "averaged_bytes", .unit = "bytes"}, bytes); }
  std::string text(const CounterTerms& terms) const { return terms.bytes_line("averages", bytes); }
};

/// Bytes of parameters that were sent on to another rank.
struct PassedCounters {
  std::int64_t bytes = 0;

  void describe(CounterVisitor& visitor) { visitor.count({.name = "passed_bytes", .unit = "bytes"}, bytes); }
  std::string text(const CounterTerms& terms) const { return terms.bytes_line("passed on", bytes); }
};

}  // namespace unisono::strategies
