#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "run/comparison.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/optim/batch_method.hpp"
#include "unisono/records/class_figures.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/session/hosts.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::session {

/// What a method for the whole training set reached, for metrics and the summary.
struct Minimisation {
  optim::BatchIteration last = {};  ///< the last iteration
  /// Whether the loss has no minimum: all training examples are classified correctly, and nothing holds the weights.
  bool separable = false;
  bool interrupted = false, stopped_early = false;  ///< the run, before the method ended

  bool has_converged() const;
  /// Why the method ended before it converged, though more iterations or passes could bring it closer; else empty.
  std::string short_of_convergence() const;
  /// "gradient_tolerance", "epochs", "early_stopping", …
  std::string ended_by() const;
};

/// The figures of an iteration, for metrics.jsonl.
nlohmann::ordered_json to_json(const optim::BatchIteration& iteration);
/// For summary.json; the strategy's counters are added to it.
nlohmann::ordered_json to_json(const Minimisation& minimisation);
/// Where a run is after a step: "epoch 3", or "step 250" within an epoch.
std::string place_text(std::int64_t step, std::int64_t steps_per_epoch);

/// Whether summary.json is of a run that its method ended before train.epochs.
bool ended_by_itself(const nlohmann::ordered_json& summary);
/// What lets it continue, for such a run or one that made train.epochs iterations or stopped early.
std::string way_on(const nlohmann::ordered_json& summary);
/// Lines of the summary.
std::string to_text(const Minimisation& minimisation);

enum class Ending { complete, converged, interrupted, diverged };

/// All figures of a finished run, for summary.json and the log.
struct Summary {
  Ending ending = Ending::interrupted;
  bool in_folder = true;       ///< whether the run left files, and can be resumed
  bool resident = true;        ///< whether the set was in memory
  bool stopped_early = false;  ///< complete before train.epochs, with the weights of kept_step()
  BestEvaluation best = {};    ///< the evaluation of the best checkpoint, if there is one
  std::optional<records::ChosenThreshold> threshold = {};  ///< of train.threshold_by
  std::int64_t steps_per_epoch = 1;
  int ranks = 1, workers = 1, threads = 1;  ///< workers: ranks that train, or replicas of several ranks
  int stages = 1;                           ///< of a replica
  Hosts hosts = {};
  std::int64_t parameters = 0, epochs = 0, steps = 0, resumed_at_step = 0;
  double epochs_made = 0;     ///< since the (re)start
  std::int64_t examples = 0;  ///< trained on since the (re)start, over all ranks
  double flops_per_example = 0;
  std::int64_t tokens_per_example = 0;  ///< of language models; 0 for others
  /// Since the run began: steps of each worker, where workers go at their own pace, and how many different examples
  /// these steps took. Empty for other strategies; the examples, too, where workers share an order of all examples.
  std::vector<std::int64_t> worker_steps = {}, worker_examples = {};
  CounterSet counters = {};  ///< since the (re)start, of all ranks
  std::vector<models::Metric> train;
  std::map<data::Split, std::vector<models::Metric>> evaluations;
  /// Of splits that were evaluated and have examples about which the training examples say nothing.
  std::map<data::Split, data::Unseen> unseen = {};
  std::vector<std::string> unseen_texts = {};  ///< the same in words
  Seconds seconds;                             ///< since the (re)start, means over ranks that train
  std::int64_t peak_memory_bytes = 0;          ///< maximum over the ranks
  /// Of the optimizer's state where it is sharded: on the rank with the largest shard; and all of it. 0: it is not.
  std::int64_t shard_bytes = 0, whole_state_bytes = 0;
  std::string batch_statistics;  ///< global, local or none
  std::string device;
  std::vector<Choice> choices = {};  ///< who decided what the config left open
  std::vector<ConfigChange> changes = {};
  std::uint64_t config_hash = 0, data_identity = 0, build = 0;
  std::optional<Comparison> comparison = {};      ///< with another run, if one was named
  std::optional<Minimisation> minimisation = {};  ///< where a method for the whole training set was used

  bool is_complete() const { return ending == Ending::complete || ending == Ending::converged; }
  /// The step whose weights a run that stopped early has: the best one's, or the last one's where none was the best.
  std::int64_t kept_step() const { return best.criterion.empty() ? steps : best.step; }
  /// Per second of training, without evaluations and checkpoints.
  double examples_per_second() const;
};

/// What to tell the user where a worker has made less than half of its share of the steps; else empty.
std::string warning_on_shares(const std::vector<std::int64_t>& worker_steps);

/// summary.json
nlohmann::ordered_json to_json(const Summary& summary, const settings::Config& config);
/// Reads the summary that a run left, if it is of so many steps; else an empty object.
nlohmann::ordered_json summary_after(std::int64_t steps, const std::string& run_folder);

/// Whether a summary is of a run that stopped early, with the same settings as in this config.
bool stopped_early_by(const nlohmann::ordered_json& summary, const settings::Config& config);

/// The same as a few readable lines: what was trained, the result, the speed, where the time went, and what to do about
/// the part that cost most.
std::string to_text(const Summary& summary, const settings::Config& config);

}  // namespace unisono::session
