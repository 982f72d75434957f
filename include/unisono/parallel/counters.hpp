#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/counters.hpp"

namespace unisono::parallel {

/// What compressed gradients or changes count.
struct CompressionCounters {
  std::int64_t sent_bytes = 0;  ///< bytes of messages to other ranks
  /// Bytes that allreduces of the same floats, or pushes, would have sent without compression.
  std::int64_t plain_bytes = 0;

  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

/// What the stages of a pipeline count.
struct PipelineCounters {
  std::int64_t boundary_bytes = 0;  ///< bytes of activations and gradients that were sent between stages

  void describe(CounterVisitor& visitor);
};

/// What ranks that share layers count.
struct TensorCounters {
  std::int64_t bytes = 0;  ///< bytes of the values that layers have added up over the ranks

  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

}  // namespace unisono::parallel
