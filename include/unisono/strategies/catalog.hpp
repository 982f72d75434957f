#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/optim/schedule.hpp"

namespace unisono::strategies {

/// The name of the first row of strategy_kinds().
std::string default_kind();

/// `[strategy]`: the keys that a run reads itself, and the settings that belong to each strategy alone (`own`).
struct StrategySettings {
  std::string kind = default_kind();  ///< a name of strategy_kinds()
  std::int64_t threads = 0;           ///< threads of a rank that share one θ; 0: the rank's fair share of the cores
  std::int64_t servers = 0;           ///< parameter servers: ranks that only serve; 0: every rank works and serves
  bool record = false;                ///< whether the order of the servers' events is recorded (events.hpp)
  /// How many workers and servers a recorded run had that is now replayed, on any number of ranks; 0: no replay. Not
  /// keys of the config.
  std::int64_t replayed_workers = 0, replayed_servers = 0;
  OwnSettings own = {};

  void describe(ConfigVisitor& visitor);
  /// Declares `threads`, for the strategies that have it.
  void describe_threads(ConfigVisitor& visitor);
  /// Declares the keys of parameter servers, for the strategies that have them.
  void describe_servers(ConfigVisitor& visitor);
};

class Strategy;

/// Properties of a strategy by which other modules treat it; they never compare its name.
struct StrategyTraits {
  /// Whether all ranks make every step together, so that batch statistics can be the global batch's.
  bool steps_together = false;
  bool needs_gradient = false;  ///< whether it needs a gradient, also of a model that could be updated in place
  /// Whether θ is sharded: a rank trains on the examples (strata) that touch only its shard.
  bool divides_model = false;
  bool has_servers = false;       ///< whether parameter servers hold θ
  bool at_own_pace = false;       ///< whether each rank that trains makes steps of its own, some ranks more than others
  bool shares_model = false;      ///< whether `threads` threads of a rank train on the same θ, in the CPU's memory
  bool times_threads = false;     ///< whether a run with threads = 0 tries if several threads are faster than one
  bool divides_features = false;  ///< whether each thread of each rank has its part of the features of all examples
  bool only_on_cpus = false;      ///< whether other threads than the device's read and write θ, in the CPU's memory
  /// Whether all ranks regularly hold the same θ, so that a moving average of θ can be kept.
  bool has_one_model = false;
  /// Whether a step is an iteration on the whole training set, for optimizers that ask for this.
  bool whole_batch = false;
  bool trains_replicas = false;  ///< whether a replica may consist of several ranks, the stages of a pipeline
  bool on_one_rank = false;      ///< whether one rank trains alone: the reference for the other strategies
  bool simulated = false;        ///< whether all that sleeps, waits or starts threads asks TrainContext::runtime
};

/// The values from other sections of the config that a strategy's own checks need.
struct StrategyTerms {
  optim::Length length;  ///< of the run
  bool shuffle = true;
  double clip_norm = 0;
  int optimizer_states = 0;  ///< vectors that the optimizer keeps
  /// Whether sums over ranks are made in an order that does not depend on the number of ranks.
  bool reproducible = false;
  bool alternating = false;  ///< whether optimizer.kind alternates between two tables, see optim::OptimizerTraits
};

/// Settings of a strategy that are worth a prediction where nothing is known about a cluster (`unisono plan`).
struct Proposal {
  std::string_view name;               ///< "allreduce, eight_bit"
  std::vector<std::string_view> keys;  ///< of `[strategy]`, beside its kind: "compression.kind=\"eight_bit\""
  std::string_view result;             ///< how its steps differ from the serial run's
  /// Whether LeNet was within 0.1 points of the accuracy that it has by the serial run's steps (docs/performance.md).
  bool is_close = false;
};

/// A row of the table of strategies: one value of `strategy.kind`.
struct StrategyKind {
  std::string_view name, meaning;
  /// Declares the strategy's own keys; null: it has none.
  void (*describe)(StrategySettings& settings, ConfigVisitor& visitor) = nullptr;
  /// Checks the strategy's keys against the rest of the config, as errors of `visitor`; null: nothing to check.
  void (*check)(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) = nullptr;
  /// Makes the strategy.
  std::unique_ptr<Strategy> (*make)(const StrategySettings& settings);
  StrategyTraits traits;
  std::string_view waiting = "ranks waited for messages";  ///< what the strategy's exposed communication is
  /// Advice for the summary on how to reduce exposed communication.
  /// \param in_place whether the model is updated in place
  std::string (*relief)(const StrategySettings& settings, bool in_place);
  std::vector<Proposal> proposals = {};  ///< the first one is the most usual; empty: it is for special models
};

/// Every strategy. A new strategy needs a row here, and nothing else outside its own file.
const std::vector<StrategyKind>& strategy_kinds();

/// The row of settings.kind. \throws ConfigError for an unknown name
const StrategyKind& kind_of(const StrategySettings& settings);
/// The first kind that has a trait. \pre there is one
std::string kind_with(bool StrategyTraits::*trait);
/// The names of the kinds whose traits satisfy a condition: "a, b or c".
std::string names_of_kinds(bool (*fits)(const StrategyTraits& traits));
/// The traits of settings.kind. \throws ConfigError for an unknown name
inline const StrategyTraits& traits_of(const StrategySettings& settings) { return kind_of(settings).traits; }

}  // namespace unisono::strategies
