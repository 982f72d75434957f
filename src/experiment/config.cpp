#include "unisono/experiment/config.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

namespace unisono {
namespace {

constexpr std::string_view kMarkdownHead =
    "# Config reference\n\nEvery key of a config file. Any of them can be overridden on the command line: "
    "`--set train.epochs=3`. Written by `unisono config reference --markdown`.\n";

}  // namespace

void TrainSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "epochs", .meaning = "passes over the training set", .minimum = 1, .maximum = 1 << 30},
                epochs);
  visitor.field({.name = "batch_size",
                 .meaning = "examples per optimizer step, over all ranks together; of a model that is updated in "
                            "place, with each example, those between two reports, averages or stops. 0: 64 of a "
                            "table; else a hundredth of an epoch, at least 4096",
                 .unit = "examples",
                 .minimum = 0,
                 .maximum = 1 << 30},
                batch_size);
  visitor.field({.name = "accumulate",
                 .meaning = "micro-batches that a step's examples are cut into, one after another; saves memory",
                 .minimum = 1},
                accumulate);
  visitor.require("accumulate", batch_size == 0 || accumulate <= batch_size,
                  "accumulate is larger than batch_size, so some micro-batches would be empty; lower it");
  visitor.field({.name = "evaluate_every_epochs",
                 .meaning = "epochs between evaluations on the validation set (the test set where there is none); 0: "
                            "only at the end",
                 .unit = "epochs",
                 .minimum = 0},
                evaluate_every_epochs);
  visitor.field({.name = "evaluation_batch_size",
                 .meaning = "examples that a rank evaluates or predicts at once",
                 .unit = "examples",
                 .minimum = 1,
                 .maximum = 1 << 20},
                evaluation_batch_size);
  visitor.field(
      {.name = "report_every_steps", .meaning = "steps between lines of metrics.jsonl", .unit = "steps", .minimum = 1},
      report_every_steps);
  visitor.field({.name = "threads",
                 .meaning = "threads per rank; 0: the rank's fair share of the cores that it may run on",
                 .minimum = 0,
                 .maximum = 4096},
                threads);
  weights.describe(visitor);
}

void CheckpointSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "every_epochs",
       .meaning = "epochs between checkpoints; 0: none at epochs' ends. The end of a run writes one in any case",
       .unit = "epochs",
       .minimum = 0},
      every_epochs);
  visitor.field({.name = "every_steps",
                 .meaning = "steps between checkpoints, beside those at epochs' ends; 0: none",
                 .unit = "steps",
                 .minimum = 0},
                every_steps);
  visitor.field({.name = "keep", .meaning = "how many of the last checkpoints are kept", .minimum = 1}, keep);
  visitor.field(
      {.name = "keep_best", .meaning = "also keep the checkpoint with the best evaluation, as checkpoints/best.h5"},
      keep_best);
}

void Config::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "name", .meaning = "of the experiment; its run folder is runs/<name>", .required = true},
                name);
  visitor.require("name",
                  !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                      name.find('\0') == std::string::npos,
                  "name must be usable as a folder's name: not empty, no '/'; use output for another place");
  visitor.field({.name = "seed", .meaning = "of initial weights, data order, dropout and augmentation", .minimum = 0},
                seed);
  visitor.field({.name = "output", .meaning = "the run folder itself; empty: runs/<name>"}, output);
  visitor.choice(
      {.name = "device", .meaning = "what computes"}, device,
      {{"cpu", "this machine's cores"},
       {"cuda", "a GPU of NVIDIA for each rank; an error where there is none"},
       {"auto", "GPUs where every rank has one and the model can use it, else the CPU; the run says which"}});
  visitor.choice({.name = "precision", .meaning = "of products on a GPU; parameters and sums are fp32 in each"},
                 precision,
                 {{"fp32", "as on the CPU"},
                  {"tf32", "inputs of products are rounded to 10 bits of mantissa"},
                  {"bf16", "activations and inputs of products have 7 bits of mantissa"}});
  visitor.require("precision", precision == "fp32" || device != "cpu",
                  "precision is of GPUs, the CPU computes in fp32: set device = \"cuda\", or remove it");
  visitor.field({.name = "allow_shared_device", .meaning = "several ranks may compute on one GPU"},
                allow_shared_device);
  visitor.section({.name = "data", .meaning = "the examples"}, data);
  visitor.section({.name = "model", .meaning = "what is trained"}, model);
  visitor.section({.name = "optimizer", .meaning = "the update rule"}, optimizer);
  visitor.section({.name = "schedule", .meaning = "the learning rate over the run"}, schedule);
  visitor.section({.name = "train", .meaning = "steps, evaluations, reports"}, train);
  visitor.section({.name = "strategy", .meaning = "the way of training in parallel"}, strategy);
  visitor.section({.name = "checkpoint", .meaning = "when the run's state is saved, and how many of them are kept"},
                  checkpoint);
  visitor.section({.name = "communication", .meaning = "messages between ranks"}, communication);
  visitor.section({.name = "fault", .meaning = "ranks that are slow on purpose, to see what a strategy makes of it"},
                  fault);

  require_weights(visitor, train.weights,
                  {.model = model.kind, .strategy = strategy.kind, .in_place = updates_in_place(*this)});
  visitor.require("schedule", schedule.warmup_epochs <= static_cast<double>(train.epochs),
                  "schedule.warmup_epochs is longer than train.epochs, so the base rate would never be reached");
  visitor.require("data", data.partition != "strata" || strategy.kind == "stratified",
                  "data.partition = \"strata\" is for strategy.kind = \"stratified\" alone; remove it");
  visitor.require(
      "data", data.shuffle || strategy.kind != "stratified",
      "shuffle = false is not for strategy.kind = \"stratified\", which has an order of its own; remove it");
  visitor.require(
      "optimizer",
      strategy.kind != "parameter_server" || strategy.consistency != "synchronous" || optimizer.clip_norm == 0,
      "clip_norm is not for synchronous servers, each of which sees only its shard of the mean gradient; "
      "remove it, or use strategy.kind = \"allreduce\"");
  visitor.require(
      "strategy", strategy.allreduce_epochs <= train.epochs,
      "strategy.allreduce_epochs is longer than train.epochs, so nothing would ever be averaged; use kind = "
      "\"allreduce\" or more epochs");
}

bool updates_in_place(const Config& config) {
  const std::string& strategy = config.strategy.kind;
  return has_in_place_kind(config.model) && strategy != "allreduce" && strategy != "elastic_averaging";
}

Config parse_config(const ConfigText& text, const ModelKinds& models) {
  Config config;
  config.model.own = make_kinds(models);
  parse_config(text, [&](ConfigVisitor& visitor) { config.describe(visitor); });
  if (config.strategy.kind == "stratified") config.data.partition = config.data.order = "strata";
  if (config.data.partition == "auto") {
    const bool at_own_pace = config.strategy.has_servers() && !has_in_place_kind(config.model);
    config.data.partition = at_own_pace ? "fixed" : "global";
  }
  return config;
}

std::string effective_config(const Config& config) {
  Config copy = config;  // visitors take what they only read by reference, too
  return effective_config([&](ConfigVisitor& visitor) { copy.describe(visitor); });
}

std::string config_reference(ReferenceFormat format, const ModelKinds& models) {
  Config defaults;
  defaults.model.own = make_kinds(models);
  const std::string keys = config_reference([&](ConfigVisitor& visitor) { defaults.describe(visitor); }, format);
  return format == ReferenceFormat::text ? keys : std::string(kMarkdownHead) + keys;
}

namespace {

/// {"train.epochs", "10"} and so on, of an effective config: one key a line below its section's header; values that go
/// over several lines belong to the key above them.
std::map<std::string, std::string> entries(const std::string& effective) {
  std::map<std::string, std::string> found;
  std::istringstream lines(effective);
  std::string section, key;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find(" = ");
    if (line.front() == '[' && line.back() == ']' && equals == std::string::npos) {
      section = line.substr(1, line.size() - 2) + ".";
    } else if (line.front() != ' ' && line.front() != ']' && equals != std::string::npos) {
      key = section + line.substr(0, equals);
      found[key] = line.substr(equals + 3);
    } else {
      found[key] += line;
    }
  }
  return found;
}

bool may_change(const std::string& key) {
  constexpr std::array free = {"name",
                               "device",
                               "precision",
                               "allow_shared_device",
                               "output",
                               "train.epochs",
                               "train.evaluate_every_epochs",
                               "data.path",
                               "data.reader",
                               "train.threads",
                               "train.evaluation_batch_size",
                               "train.report_every_steps",
                               "strategy.servers"};
  return std::find(free.begin(), free.end(), key) != free.end() || key.starts_with("checkpoint.") ||
         key.starts_with("communication.") || key.starts_with("fault.");
}

}  // namespace

std::vector<std::string> changes_that_forbid_resuming(const std::string& before, const std::string& after) {
  const auto old_entries = entries(before), new_entries = entries(after);
  std::vector<std::string> changed;
  for (const auto& [key, value] : new_entries) {
    const auto old = old_entries.find(key);
    if (old != old_entries.end() && old->second != value && !may_change(key)) changed.push_back(key);
  }
  return changed;
}

}  // namespace unisono
