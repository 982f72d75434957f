#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/strategies/settings.hpp"

namespace unisono::strategies {

class Strategy;

/// What others ask about a strategy, whose name they need not know.
struct StrategyTraits {
  bool steps_together = false;  ///< all ranks make every step together: batch statistics can be the global batch's
  bool needs_gradient = false;  ///< even of a model that could be updated in place
  bool divides_model = false;  ///< no rank holds all of θ; ranks get the strata of the examples that go with their part
  bool has_servers = false;    ///< workers at their own pace, and servers that hold θ
  bool shares_model = false;   ///< `threads` threads of a rank train on the same θ, in the CPU's memory
  bool has_one_model = false;  ///< all ranks regularly hold the same θ, so that a moving average of it can be kept
};

/// What the rest of a config says, as far as rules join it with a strategy's settings.
struct StrategyTerms {
  std::int64_t epochs = 0;
  bool shuffle = true;
  double clip_norm = 0;
};

/// A value of `strategy.kind`.
struct StrategyKind {
  std::string_view name, meaning;
  void (*describe)(StrategySettings& settings, ConfigVisitor& visitor) = nullptr;  ///< its keys; null: it has none
  /// Rules that join its keys with the rest of the config; null: none.
  void (*check)(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) = nullptr;
  std::unique_ptr<Strategy> (*make)(const StrategySettings& settings);
  StrategyTraits traits;
  std::string_view waiting = "ranks waited for messages";  ///< what exposed communication is
  /// What makes it less. \param in_place the model is updated in place
  std::string (*relief)(const StrategySettings& settings, bool in_place);
};

/// Every strategy. A new one needs a row here, and nothing else outside its own file.
const std::vector<StrategyKind>& strategy_kinds();

/// \throws ConfigError for a name that is none
const StrategyKind& kind_of(const StrategySettings& settings);
inline const StrategyTraits& traits_of(const StrategySettings& settings) { return kind_of(settings).traits; }

}  // namespace unisono::strategies
