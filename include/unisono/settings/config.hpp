#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/comm/process_grid.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/kernels/cuda.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/optim/schedule.hpp"
#include "unisono/parallel/replica.hpp"
#include "unisono/settings/simulation.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::settings {

// What a run decides by its evaluations.

/// `[checkpoint.best]`: by what the best checkpoint is chosen.
struct BestSettings {
  std::string metric = "auto";  ///< a name in Model::metrics; auto: the accuracy where there is one, else the loss
  data::Split on = data::Split::validation;
  void describe(ConfigVisitor& visitor);
};

/// `[train.early_stopping]`
struct EarlyStoppingSettings {
  std::string metric = "auto";  ///< a name in Model::metrics; auto: the accuracy where there is one, else the loss
  data::Split on = data::Split::validation;
  std::int64_t patience = 0;  ///< evaluations without an improvement; 0: the run never stops early
  double min_delta = 0;       ///< how much better counts as an improvement
  bool is_on() const { return patience > 0; }
  void describe(ConfigVisitor& visitor);
};

/// How tensors of a file of weights find their place in the model.
enum class InitialiseBy { names, order };

/// A rule of `train.initialise_map`, "FROM = TO": what the tensors of a file are called here. Each * of FROM stands for
/// any characters, which the * of the same number in TO repeats.
struct TensorRule {
  std::string from;
  std::string to;  ///< empty: the tensor is left out
};
/// \throws ConfigError for a text that is no such rule
TensorRule parse_tensor_rule(const std::string& text);

/// The keys of `[train]` that say where a model's weights come from, which of them are trained, and which are used.
struct WeightSettings {
  std::string initialise_from;  ///< a run's folder, a checkpoint or a file of tensors; empty: only initial values
  std::vector<std::string> initialise_map;  ///< rules for the names of a file's tensors, see TensorRule
  InitialiseBy initialise_by = InitialiseBy::names;
  std::vector<std::string> freeze;  ///< patterns of names of blocks, see ParameterLayout::freeze
  double average = 0;               ///< `weight_average`: the decay of θ's moving average; 0: none
  void describe(ConfigVisitor& visitor);
};

/// The parts of a config that decide whether the keys of WeightSettings are allowed.
struct WeightTerms {
  const std::string& model;     ///< model.kind
  const std::string& strategy;  ///< strategy.kind
  bool has_one_model = false;   ///< StrategyTraits::has_one_model
  bool in_place = false;        ///< whether the model is updated in place
};

/// Checks the keys of WeightSettings against the rest of the config; errors are reported as of [train].
void require_weights(ConfigVisitor& visitor, const WeightSettings& weights, const WeightTerms& terms);

/// What becomes of an epoch's last batch where it has fewer examples than the others.
enum class LastBatch {
  /// The last batch joins the one before it if batch normalisation needs more examples; else it is a smaller step.
  join,
  keep,  ///< the last batch is a smaller step
  drop   ///< the last batch is left out
};

/// How losses are weighted by class.
enum class ClassWeights { none, balanced };

/// Who sets data.partition and data.order to "strata": "strategy.kind = …".
std::string_view strata_set_by();

/// `[train]`
struct TrainSettings {
  std::int64_t epochs = 10;
  std::int64_t steps = 0;  ///< length of the run in place of `epochs`; 0: it is in epochs
  /// Examples per optimizer step, over all ranks; 0: what the data decide; −1: the most that memory allows.
  std::int64_t batch_size = 0;
  std::int64_t accumulate = 1;  ///< micro-batches per step, each divided among all ranks
  /// Micro-batches per step; where there are enough, each is one rank's; 0: chosen automatically.
  std::int64_t micro_batches = 1;
  LastBatch last_batch = LastBatch::join;
  std::int64_t evaluate_every_epochs = 1;
  std::int64_t evaluate_every_steps = 0;     ///< besides those after epochs; 0: none
  std::int64_t evaluation_batch_size = 256;  ///< examples that a rank evaluates or predicts at once
  std::int64_t report_every_steps = 100;
  std::int64_t threads = 0;  ///< threads per rank; 0: the rank's fair share of the cores
  double divergence = 10;    ///< how many times its first loss a run may reach for an epoch; 0: any number
  EarlyStoppingSettings early_stopping = {};
  std::string threshold_by;  ///< metric by which the threshold of two classes is chosen; empty: it is not
  ClassWeights class_weights = ClassWeights::none;  ///< how classes are weighted where `class_weight_list` is empty
  std::vector<double> class_weight_list;            ///< [K] weights of the classes
  WeightSettings weights;                           ///< further keys of [train]
  /// Of the whole run.
  optim::Length length() const { return steps > 0 ? optim::Length{steps, true} : optim::Length{epochs}; }
  /// Whether the run makes steps. One that does not keeps the weights that it starts from.
  bool trains() const { return length().count > 0; }
  /// \param whole_batch whether a step takes the whole set (optimizer.kind)
  void describe(ConfigVisitor& visitor, bool whole_batch);
};

/// `[checkpoint]`
struct CheckpointSettings {
  std::int64_t every_epochs = 1;
  std::int64_t every_steps = 0;
  std::int64_t memory_every_steps = 0;  ///< steps between copies in the nodes' memory; 0: none
  double hours_between_failures = 0;
  std::int64_t keep = 2;
  bool keep_best = true;
  std::string local = {};
  /// Whether threads write checkpoints while training goes on. Simulated time does not pass while they do. No key.
  bool in_background = true;
  BestSettings best = {};
  void describe(ConfigVisitor& visitor);
};

/// `[metrics]`
struct MetricsSettings {
  std::vector<std::string> show = {};  ///< metrics, besides the usual ones and those by which the run decides
  bool tensorboard = false;
  void describe(ConfigVisitor& visitor);
};

/// The device on which a run computes.
enum class DeviceChoice { cpu, cuda, automatic };

inline constexpr Named<DeviceChoice> kDevices[] = {
    {DeviceChoice::cpu, "cpu", "the cores of this machine"},
    {DeviceChoice::cuda, "cuda", "one NVIDIA GPU per rank; an error if there is none"},
    {DeviceChoice::automatic, "auto",
     "GPUs if every rank has one and the model supports them, otherwise the CPU; the run says which"}};

/// What a config file describes: one experiment. The members' initialisers are the defaults.
struct Config {
  std::string name;
  std::int64_t seed = 1;
  std::string output;  ///< the run folder; empty: runs/<name>
  DeviceChoice device = DeviceChoice::cpu;
  kernels::Precision precision = kernels::Precision::fp32;
  bool allow_shared_device = false;
  data::DataSettings data{.strata_set_by = strata_set_by()};
  models::ModelSettings model;
  optim::OptimizerSettings optimizer;
  optim::ScheduleSettings schedule;
  TrainSettings train;
  parallel::ReplicaSettings replica;
  strategies::StrategySettings strategy;
  CheckpointSettings checkpoint;
  MetricsSettings metrics;
  comm::CommunicationSettings communication;
  parallel::FaultSettings fault;
  SimulationSettings simulation;
  std::vector<std::string> notes;  ///< what parsing had to say; no key

  void describe(ConfigVisitor& visitor);
  /// Whether each step is an iteration of a method for the whole training set.
  bool whole_batch() const;
  std::string run_folder() const { return output.empty() ? "runs/" + name : output; }
  /// How many ranks are the stages of one replica.
  int stages() const { return static_cast<int>(replica.stages); }
  /// How many ranks hold one copy of the model. \pre the number of stages is known
  int ranks_of_replica() const { return static_cast<int>(replica.ranks()); }
  /// Whether layers are divided into parts.
  bool divides_layers() const { return replica.leaves() > 1; }
  /// From the schedule's first step to its last.
  optim::Length schedule_length() const { return schedule.span(train.length()); }
  /// Whether settings are left to the placement of the model on the ranks.
  bool is_placed_automatically() const;
  /// Whether a replica may turn out to be more than one rank, or settings are left to the placement.
  bool needs_placement() const { return replica.stages != 1 || is_placed_automatically(); }
};

/// The process grid that the config asks for, of one stage where their number is open. \throws ConfigError if the
/// stages do not divide the ranks
comm::GridShape grid_shape(const Config& config, int ranks);

/// Whether the config's model is a built-in one that the config's strategy updates in place.
bool updates_in_place(const Config& config);

/// Reads a config and checks it.
/// \param models added kinds of models. \throws ConfigError
Config parse_config(const ConfigText& text, const models::ModelKinds& models = {});
/// The effective config as TOML: every key in force.
std::string effective_config(const Config& config);
/// The reference of all keys: `unisono config reference`, and docs/config.md.
std::string config_reference(ReferenceFormat format, const models::ModelKinds& models = {});

/// The value of a key ("train.epochs") of an effective config, as it is written there; empty: the config has no such
/// key.
std::string value_of_key(const std::string& effective, const std::string& key);
/// The keys that two effective configs both have, with different values.
std::vector<std::string> changed_keys(const std::string& before, const std::string& after);
/// Whether a resumed run takes another value of a key where --change asks for it: settings of the optimizer's steps
/// that change the form of no stored vector.
bool may_change_on_request(const std::string& key);

/// The keys ("train.batch_size") whose values differ between two effective configs, other than keys that may change
/// when a run is resumed: its length, its schedule's length, its end by other reasons, name, place, reports,
/// checkpoints, threads, communication, and how the model is divided.
std::vector<std::string> changes_that_forbid_resuming(const std::string& before, const std::string& after);

}  // namespace unisono::settings
