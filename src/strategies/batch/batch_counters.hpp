#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/counters.hpp"

namespace unisono::strategies {

/// What whole-batch methods count; portions are counted where the training set is divided into such.
struct BatchCounters {
  std::int64_t passes = 0, evaluations = 0;  ///< the same on all ranks; see optim::BatchIteration
  std::int64_t products = 0, hessians = 0;   ///< the same on all ranks
  std::int64_t portions = 0;                 ///< of the training set; 0: it is not divided
  std::int64_t computed = 0, cancelled = 0;  ///< portions that this rank finished; that it was told to leave
  std::int64_t moved = 0, repeated = 0;      ///< portions, counted on rank 0; see Dealer
  std::int64_t nodes = 0;                    ///< of the trees that were added up, over all ranks
  std::int64_t sent_bytes = 0;               ///< of vectors

  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

}  // namespace unisono::strategies
