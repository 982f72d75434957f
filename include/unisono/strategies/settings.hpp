#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/base/own_settings.hpp"

namespace unisono::strategies {

/// The first of strategy_kinds().
std::string default_kind();

/// `[strategy]`: what a run must know of, and the settings of the strategies' own.
struct StrategySettings {
  std::string kind = default_kind();  ///< a name of strategy_kinds()
  std::int64_t threads = 0;           ///< where they share one model: of a rank; 0: its fair share of the cores
  std::int64_t servers = 0;           ///< where there are any: ranks that only serve; 0: every rank works and serves
  bool record = false;                ///< the order in which servers heard workers is written down
  /// A recorded run's roles, to be repeated on any ranks; no keys of the config. 0: none is repeated.
  std::int64_t replayed_workers = 0, replayed_servers = 0;
  OwnSettings own = {};

  void describe(ConfigVisitor& visitor);
  void describe_threads(ConfigVisitor& visitor);
  void describe_servers(ConfigVisitor& visitor);
};

}  // namespace unisono::strategies
