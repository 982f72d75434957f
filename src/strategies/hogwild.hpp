#pragma once

#include "parameter_average.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// What a thread locks during an update.
enum class Locking { none, striped, global };

/// The keys of strategy.kind = "hogwild".
struct HogwildSettings {
  Locking locking = Locking::none;
  std::int64_t period = 16;  ///< with several ranks: steps between averages of θ
  MergeSettings merge{};
};

}  // namespace unisono::strategies
