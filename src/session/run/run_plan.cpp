#include "unisono/session/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "machine/model_parts.hpp"
#include "machine/shared_staging.hpp"
#include "run/resume.hpp"
#include "run/run_outputs.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/initial_weights.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "weights/tensor_fit.hpp"

namespace unisono::session {

const Choice* RunPlan::trial_of_threads() const {
  const auto found = std::ranges::find(choices, ChosenBy::trial, &Choice::by);
  return found == choices.end() ? nullptr : &*found;
}

void count_staged(const RunPlan& plan, CounterSet& counters) {
  if (plan.staging) counters.of<data::StagedBytes>() = plan.staging->read_bytes();
}

RunPlan plan_run(Job& job, comm::Communicator& group, const settings::Config& asked, const RunOptions& options) {
  if (asked.simulation.is_on() && !job.runtime().is_virtual()) {
    throw ConfigError(
        "simulation.ranks: this config describes a simulation; start it by `unisono simulate`, or set it to 0");
  }
  require_same_experiment(group, asked);
  // What was chosen for the first part of a resumed run stays, whatever would be chosen now.
  const bool resumes = options.existing == records::Existing::resume;
  const bool other_schedule =
      std::ranges::any_of(options.changes, [](const std::string& key) { return key.starts_with("schedule."); });
  if (other_schedule || (!resumes && !options.in_older_job)) optim::require_base_rate(asked.schedule);
  Settled settled = resumes ? settle_as_before(group, asked) : Settled(asked);
  data::DataSettings data = asked.data;
  data.split_by = settled.config.data.split_by;
  auto staging = job.stage_set(group, data);  // before anything of the set is read
  // The placement gives the ranks their order, on which all that follows depends. It looks at the set's shapes alone.
  const auto inspect = [&data] { return data::inspect_dataset(data); };
  PlacedRanks ranks = place_ranks(group, job.place(), std::move(settled), inspect, job.log());
  // A folder that cannot be used is an error before the set is read, which may take long.
  auto folder = claim_folder(ranks.group, ranks.settled.config, options);
  auto set = job.open_set(ranks.group, data, static_cast<std::uint64_t>(asked.seed), options.fold);
  settled = settle(std::move(ranks.settled), (*set)->info());
  // The trial trains on the set, with what the data have decided.
  if (!resumes) settled = choose_threads({ranks.group, job.place(), job.log()}, std::move(settled), **set);
  return {.config = std::move(settled.config),
          .choices = std::move(settled.choices),
          .reordered = std::move(ranks.reordered),
          .group = ranks.group,
          .given_rank = ranks.given_rank,
          .folder = std::move(folder),
          .staging = std::move(staging),
          .set = std::move(set)};
}

namespace {

/// Checks that a run can start from the weights that the config names.
void require_other_weights(const settings::Config& config, const models::Model& model) {
  const settings::WeightSettings& weights = config.train.weights;
  if (weights.initialise_from.empty() || initial_weights(config, model)) return;
  require_no_renaming(weights);
  require_checkpoint(weights.initialise_from);
}

}  // namespace

std::string check(const settings::Config& given, const CheckedUse& use) {
  const std::string& path = given.data.path;
  if (!has_files(path)) {
    return fmt::format("{} does not exist: the config is valid, but was not checked against the data", path);
  }
  data::DatasetInfo data = data::inspect_dataset(given.data);
  if (use.with_folds) data.validation = std::max<std::int64_t>(data.validation, 1);
  if (given.simulation.is_on()) require_simulated(given);
  const settings::Config config = settle(given, data).config;
  if (!use.in_older_job) optim::require_base_rate(config.schedule);
  require_way_to_device(config);
  ModelOfConfig parts(config, data);
  models::Model& model = parts.model();
  parts.strategy().require(model, std::max(1, use.ranks / config.ranks_of_replica()));
  require_method(config, model, data);
  require_placeable(config, model, parts.backend());
  if (!config.is_placed_automatically()) make_stages(config, parts.model_of_rank(), parts.backend(), /*replicas=*/1);
  require_divisible_steps(config, parts.strategy(), model);
  if (!config.whole_batch()) optimizer_settings(config, parts.strategy(), model);
  require_class_weights(config, model, data);
  criteria_of(config, model, data);
  require_other_weights(config, model);
  return fmt::format("{} fits: {} training, {} validation and {} test examples; the model has {} parameters", path,
                     grouped(data.train), grouped(data.validation), grouped(data.test),
                     grouped(model.layout().parameters()));
}

}  // namespace unisono::session
