#include "unisono/settings/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "unisono/base/errors.hpp"
#include "unisono/models/model.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/settings/job_settings.hpp"
#include "unisono/strategies/catalog.hpp"

namespace unisono::settings {

std::string_view strata_set_by() {
  static const std::string by = fmt::format(
      "strategy.kind = \"{}\"", strategies::names_of_kinds([](const auto& traits) { return traits.divides_model; }));
  return by;
}
namespace {

constexpr std::string_view kMarkdownHead =
    "# Config reference\n\nAll keys of a config file. Each can be overridden on the command line: "
    "`--set train.epochs=3`; "
    "`--unset train.epochs` removes one from the file. This page is written by `unisono config reference "
    "--markdown`.\n";

constexpr Named<kernels::Precision> kPrecisions[] = {
    {kernels::Precision::fp32, "fp32", "as on the CPU"},
    {kernels::Precision::tf32, "tf32", "inputs of products are rounded to a mantissa of 10 bits"},
    {kernels::Precision::bf16, "bf16", "activations and inputs of products have a mantissa of 7 bits"}};

/// Methods for the whole training set and the strategy that runs them need each other.
void require_method(ConfigVisitor& visitor, const Config& config) {
  visitor.require("data", !config.whole_batch() || config.data.partition != data::Partition::fixed,
                  "data.partition = \"fixed\" means nothing here: every step divides the whole set anew; remove it");
  visitor.require("data", !config.whole_batch() || config.data.order == data::Order::random,
                  "data.order means nothing here: every step uses the whole set; remove it");
  visitor.require("replica", !config.whole_batch() || config.replica.recompute == parallel::Recompute::none,
                  "replica.recompute means nothing here: a portion's gradient takes few examples at a time; remove it");
  const bool strategy = traits_of(config.strategy).whole_batch;
  visitor.require(
      "strategy", strategy || !config.whole_batch(),
      fmt::format("optimizer.kind = \"{}\" uses the whole training set in every step: set strategy.kind = {}",
                  config.optimizer.kind,
                  strategies::names_of_kinds([](const auto& traits) { return traits.whole_batch; })));
  visitor.require("optimizer", !strategy || config.whole_batch(),
                  fmt::format("strategy.kind = \"{}\" uses the whole training set in every step, but optimizer.kind = "
                              "\"{}\" steps on batches of it: set optimizer.kind = {}, or another strategy",
                              config.strategy.kind, config.optimizer.kind, optim::names_of_whole_batch_kinds()));
}

/// What pipelines need of the rest of the config.
void require_replica(ConfigVisitor& visitor, const Config& config) {
  const bool whole = !config.needs_placement() && !config.divides_layers();
  const bool trains_replicas = traits_of(config.strategy).trains_replicas;
  const auto unless = [&](std::string_view remedy) {
    return fmt::format("strategy.kind = \"{}\" trains only models that each rank holds as a whole: {}, or choose {}",
                       config.strategy.kind, remedy,
                       strategies::names_of_kinds([](const auto& traits) { return traits.trains_replicas; }));
  };
  visitor.require("train", trains_replicas || config.train.batch_size >= 0,
                  unless("give a number for train.batch_size instead of \"largest\""));
  visitor.require("train", trains_replicas || config.train.micro_batches > 0,
                  unless("give a number for train.micro_batches instead of \"auto\""));
  visitor.require("replica", whole || trains_replicas,
                  unless(config.divides_layers()      ? "remove replica.tensor and replica.tensor_leaves"
                         : config.replica.stages != 1 ? "remove replica.stages"
                                                      : "remove replica.recompute and replica.placement"));
  visitor.require("replica", !config.divides_layers() || config.precision == kernels::Precision::fp32,
                  "ranks that share layers add up activations in fp32 only so far: set precision = \"fp32\", or remove "
                  "replica.tensor and replica.tensor_leaves");
  visitor.require(
      "replica", config.replica.recompute != parallel::Recompute::blocks || config.model.kind == "network",
      fmt::format("recompute = \"blocks\" is for networks, but model.kind = \"{}\": remove it", config.model.kind));
  visitor.require("replica", !config.needs_placement() || config.train.accumulate == 1,
                  config.train.batch_size < 0
                      ? "train.accumulate cannot be combined with train.batch_size = \"largest\": use "
                        "train.micro_batches instead"
                      : "train.accumulate divides micro-batches among the ranks, but in a pipeline each passes through "
                        "all stages as a whole: use train.micro_batches instead");
}

}  // namespace

void CheckpointSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "every_epochs",
       .meaning =
           "epochs between checkpoints; 0: no checkpoints at the end of an epoch. The end of a run always writes one",
       .unit = "epochs",
       .range = at_least(0)},
      every_epochs);
  visitor.field({.name = "every_steps",
                 .meaning = "steps between additional checkpoints, besides those at the end of epochs; 0: none",
                 .unit = "steps",
                 .range = at_least(0)},
                every_steps);
  visitor.field({.name = "memory_every_steps",
                 .meaning = "steps between copies of the state in the memory of the nodes, from which a run goes on "
                            "when a rank or a node is lost; 0: none",
                 .unit = "steps",
                 .range = at_least(0)},
                memory_every_steps);
  visitor.field({.name = "hours_between_failures",
                 .meaning = "mean time between two failures that end a run on these nodes: additional checkpoints are "
                            "written as often as loses the least time, from what each costs; 0: none",
                 .unit = "hours",
                 .range = at_least(0).at_most(1e7)},
                hours_between_failures);
  visitor.field({.name = "keep", .meaning = "number of latest checkpoints that are kept", .range = at_least(1)}, keep);
  visitor.field(
      {.name = "keep_best", .meaning = "also keep the checkpoint with the best evaluation, as checkpoints/best.h5"},
      keep_best);
  visitor.field(
      {.name = "local",
       .meaning = "folder on a local disk of the node of rank 0, where checkpoints are written first; they are "
                  "copied to the run folder while training goes on; empty: none"},
      local);
  visitor.section({.name = "best", .meaning = "how the best checkpoint is chosen"}, best);
}

void MetricsSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "show",
                 .meaning = "metrics of validation and test examples that the lines of a run show besides the usual "
                            "ones and those by which it decides, such as f1; all are in metrics.jsonl"},
                show);
  for (const std::string& name : show) {
    visitor.require("show", models::means_metric(name), fmt::format("there is no metric '{}'", name));
  }
  visitor.field(
      {.name = "tensorboard",
       .meaning = "also write the numbers of metrics.jsonl to the run folder's tensorboard/, for TensorBoard"},
      tensorboard);
}

void Config::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "name", .meaning = "name of the experiment; the run folder is runs/<name>", .required = true},
                name);
  visitor.require("name",
                  !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                      name.find('\0') == std::string::npos,
                  "name must be usable as a folder name: not empty, not '.' or '..', and without '/'; to choose "
                  "another folder, set output");
  visitor.field({.name = "seed",
                 .meaning = "seed of the random numbers: initial weights, order of examples, dropout, augmentation",
                 .range = at_least(0)},
                seed);
  visitor.field({.name = "output", .meaning = "run folder; if empty, runs/<name>"}, output);
  visitor.choice({.name = "device", .meaning = "device that the model is trained on"}, device, kDevices);
  visitor.choice(
      {.name = "precision",
       .meaning = "precision of matrix products and convolutions on a GPU; parameters and sums are always fp32"},
      precision, kPrecisions);
  visitor.require("precision", precision == kernels::Precision::fp32 || device != DeviceChoice::cpu,
                  "precision applies only to GPUs, and the CPU always computes in fp32: set device = \"cuda\", or "
                  "remove precision");
  visitor.field({.name = "allow_shared_device", .meaning = "allow several ranks to use the same GPU"},
                allow_shared_device);
  visitor.section({.name = "data", .meaning = "the data set, and how it is read"}, data);
  visitor.section({.name = "model", .meaning = "the model and its settings"}, model);
  visitor.section({.name = "optimizer", .meaning = "the update rule"}, optimizer);
  if (whole_batch()) {
    visitor.refuse("schedule", fmt::format("means nothing here: {} has no learning rate; remove it", optimizer.kind));
  } else {
    visitor.section({.name = "schedule", .meaning = "the learning rate over the run"}, schedule);
  }
  visitor.section({.name = "train", .meaning = "length of the training, batch size, evaluations, reports"},
                  [this](ConfigVisitor& inner) { train.describe(inner, whole_batch()); });
  visitor.section({.name = "replica", .meaning = "the ranks that hold one copy of the model"}, replica);
  visitor.section({.name = "strategy", .meaning = "how the ranks train in parallel"}, strategy);
  visitor.section({.name = "checkpoint", .meaning = "when checkpoints are written, and how many of them are kept"},
                  checkpoint);
  visitor.section({.name = "metrics", .meaning = "files that losses, metrics and times are written to"}, metrics);
  visitor.section({.name = "communication", .meaning = "messages between ranks"}, communication);
  visitor.section({.name = "fault", .meaning = "slows ranks down on purpose, to test how a strategy copes"}, fault);
  visitor.section(
      {.name = "simulation", .meaning = "the workers, computers and network that `unisono simulate` simulates"},
      simulation);

  const strategies::StrategyKind& kind = kind_of(strategy);
  require_method(visitor, *this);
  require_weights(visitor, train.weights,
                  {.model = model.kind,
                   .strategy = strategy.kind,
                   .has_one_model = kind.traits.has_one_model,
                   .in_place = updates_in_place(*this)});
  require_replica(visitor, *this);
  const auto exceeds_warmup = [this](const optim::Length& length) {  // in steps: see require_base_rate
    return !train.trains() || length.in_steps || schedule.warmup_epochs <= static_cast<double>(length.count);
  };
  visitor.require("schedule", exceeds_warmup(train.length()),
                  "schedule.warmup_epochs is larger than train.epochs, so the base learning rate would never be "
                  "reached; lower it, or train for more epochs");
  visitor.require("schedule", exceeds_warmup(schedule_length()),
                  "schedule.warmup_epochs is longer than schedule.epochs, so the rate would never fall");
  visitor.require("checkpoint", checkpoint.keep_best || !train.early_stopping.is_on(),
                  "train.early_stopping restores the best checkpoint, and keep_best = false keeps none; remove one of "
                  "them");
  visitor.require("data", data.partition != data::Partition::strata || kind.traits.divides_model,
                  fmt::format("data.partition = \"strata\" works only with {}; remove it", strata_set_by()));
  if (kind.check != nullptr) {
    kind.check(strategy,
               {.length = train.length(),
                .shuffle = data.shuffle,
                .clip_norm = optimizer.clip_norm,
                .optimizer_states = optim::optimizer_state_vectors(optimizer),
                .reproducible = communication.tree_leaves() > 0,
                .alternating = optim::traits_of(optimizer).alternating},
               visitor);
  }
}

bool Config::whole_batch() const { return optim::is_whole_batch(optimizer); }

bool Config::is_placed_automatically() const {
  return train.batch_size < 0 || train.micro_batches == 0 || replica.asks_for_placement();
}

comm::GridShape grid_shape(const Config& config, int ranks) {
  const int stages = std::max(1, config.stages()), tensor = static_cast<int>(config.replica.tensor);
  const int of_replica = stages * tensor;
  if (ranks % of_replica != 0) {
    const std::string key = tensor == 1 ? "replica.stages" : stages == 1 ? "replica.tensor" : "one of both";
    const std::string given = tensor == 1 ? fmt::format("replica.stages: {} stages do not divide", stages)
                              : stages == 1
                                  ? fmt::format("replica.tensor: {} ranks for each layer do not divide", tensor)
                                  : fmt::format("replica: stages × tensor = {} × {} does not divide", stages, tensor);
    throw ConfigError(fmt::format("{} {}: start a multiple of {} ranks (mpirun -n {} …), or change {}", given,
                                  count_of(ranks, "rank"), of_replica,
                                  ranks < of_replica ? of_replica : ranks / of_replica * of_replica, key));
  }
  return {.data = ranks / of_replica, .stages = stages, .tensor = tensor};
}

bool updates_in_place(const Config& config) {
  return models::has_in_place_kind(config.model) && !traits_of(config.strategy).needs_gradient;
}

PlannedConfig parse_plans(const ConfigText& text, const models::ModelKinds& models) {
  PlannedConfig planned;
  Config& config = planned.config;
  config.model.own = models::make_kinds(models);
  config.notes = parse_config(text, [&](ConfigVisitor& visitor) {
    config.describe(visitor);
    parse_sections(visitor, planned.plans);
  });
  const strategies::StrategyTraits& traits = traits_of(config.strategy);
  if (config.whole_batch()) config.data.shuffle = false;  // the order of examples is that of the portions
  if (traits.divides_model) {
    config.data.partition = data::Partition::strata;
    config.data.order = data::Order::strata;
  }
  if (config.data.partition == data::Partition::automatic) {
    const bool at_own_pace = traits.at_own_pace && !models::has_in_place_kind(config.model);
    config.data.partition = at_own_pace ? data::Partition::fixed : data::Partition::global;
  }
  return planned;
}

Config parse_config(const ConfigText& text, const models::ModelKinds& models) {
  return parse_plans(text, models).config;
}

std::string effective_config(const Config& config) {
  Config copy = config;  // visitors take what they only read by reference, too
  return unisono::effective_config([&](ConfigVisitor& visitor) { copy.describe(visitor); });
}

std::string config_reference(ReferenceFormat format, const models::ModelKinds& models) {
  Config defaults;
  defaults.model.own = models::make_kinds(models);
  const std::string keys = config_reference(
      [&](ConfigVisitor& visitor) {
        defaults.describe(visitor);
        describe_plans(visitor);
      },
      format);
  return format == ReferenceFormat::text ? keys : std::string(kMarkdownHead) + keys;
}

namespace {

ConfigTree tree_of(const std::string& effective) {
  return config_tree({.path = "an effective config", .text = effective, .overrides = {}});
}

bool changes_sums(const std::string& key) { return key == "communication.reduction" || key == "communication.leaves"; }

bool may_change(const std::string& key) {
  constexpr std::array free = {"name",
                               "device",
                               "precision",
                               "allow_shared_device",
                               "output",
                               "train.epochs",
                               "train.steps",
                               "train.evaluate_every_epochs",
                               "train.evaluate_every_steps",
                               "data.path",
                               "data.external_files",
                               "data.reader",
                               "data.stage",
                               "data.stage_bytes",
                               "data.pictures.threads",
                               "train.threads",
                               "schedule.epochs",
                               "schedule.steps",
                               "train.divergence",
                               "train.threshold_by",
                               "train.evaluation_batch_size",
                               "train.report_every_steps",
                               "optimizer.gradient_tolerance",
                               "optimizer.function_tolerance",
                               "optimizer.passes",
                               "strategy.backup",
                               "strategy.shard",
                               "strategy.servers"};
  return std::find(free.begin(), free.end(), key) != free.end() || key.starts_with("checkpoint.") ||
         key.starts_with("train.early_stopping.") || (key.starts_with("communication.") && !changes_sums(key)) ||
         key.starts_with("fault.") || key.starts_with("metrics.") || key.starts_with("replica.");
}

}  // namespace

bool may_change_on_request(const std::string& key) {
  const bool of_steps = key.starts_with("optimizer.") || key.starts_with("schedule.");
  return may_change(key) || (of_steps && key != "optimizer.kind" && key != "optimizer.history");
}

std::string value_of_key(const std::string& effective, const std::string& key) {
  const ConfigTree all = tree_of(effective);
  const auto found = all.find(key);
  return found == all.end() ? "" : toml_text(found->second);
}

namespace {

/// Whether two values are equal but for keys of tables that only one of them has: another version may know keys that
/// this one does not.
bool agree(const ConfigValue& before, const ConfigValue& after) {
  const auto *const elements = before.array(), *const others = after.array();
  if (elements != nullptr && others != nullptr) return std::ranges::equal(*elements, *others, agree);
  const ConfigValue::Table* const entries = before.table();
  if (entries == nullptr || after.table() == nullptr) return before == after;
  return std::ranges::all_of(*entries, [&](const ConfigValue::Entry& entry) {
    const ConfigValue* const other = after.find(entry.key);
    return other == nullptr || agree(entry.value, *other);
  });
}

}  // namespace

std::vector<std::string> changed_keys(const std::string& before, const std::string& after) {
  std::vector<std::string> changed;
  for (const ConfigDifference& one : differences(tree_of(before), tree_of(after))) {
    if (one.before && one.after && !agree(*one.before, *one.after)) changed.push_back(one.key);
  }
  return changed;
}

std::vector<std::string> changes_that_forbid_resuming(const std::string& before, const std::string& after) {
  std::vector<std::string> changed = changed_keys(before, after);
  std::erase_if(changed, may_change);
  return changed;
}

}  // namespace unisono::settings
