#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"

namespace unisono::strategies {

/// The name of the first row of strategy_kinds().
std::string default_kind();

/// `[strategy]`: the keys that a run reads itself, and the settings that belong to each strategy alone (`own`).
struct StrategySettings {
  std::string kind = default_kind();  ///< a name of strategy_kinds()
  std::int64_t threads = 0;           ///< of a rank that share one θ; 0: the rank's fair share of the cores
  std::int64_t servers = 0;           ///< parameter servers: ranks that only serve; 0: every rank works and serves
  bool record = false;                ///< whether the order of the servers' events is recorded (events.hpp)
  /// How many workers and servers a recorded run had that is now replayed, on any number of ranks; 0: no replay. Not
  /// keys of the config.
  std::int64_t replayed_workers = 0, replayed_servers = 0;
  OwnSettings own = {};

  void describe(ConfigVisitor& visitor);
  /// For the strategies that have these keys.
  void describe_threads(ConfigVisitor& visitor);
  void describe_servers(ConfigVisitor& visitor);
};

}  // namespace unisono::strategies
