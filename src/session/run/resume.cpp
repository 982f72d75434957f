#include "run/resume.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "checkpoint/checkpoint_header.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/run.hpp"
#include "unisono/session/run_state.hpp"

namespace unisono::session {
namespace {

void require_same_config_as_stored(const ResumedRun& run, const CheckpointHeader& stored) {
  auto changed = settings::changes_that_forbid_resuming(stored.config, run.header.config);
  std::erase_if(changed, [&](const std::string& key) { return std::ranges::count(run.options.changes, key) > 0; });
  if (changed.empty()) return;
  std::string on_request;
  if (std::ranges::all_of(changed, settings::may_change_on_request)) {
    for (const std::string& key : changed)
      on_request += fmt::format(" --change {}={}", key, settings::value_of_key(run.header.config, key));
    on_request = fmt::format("; to change them from here on, --resume{}", on_request);
  }
  throw ConfigError(
      fmt::format("{}: the run was started with different values of {}: resume with those of its config.toml, or "
                  "start a new run with --output DIR{}",
                  run.plan.config.run_folder(), fmt::join(changed, ", "), on_request));
}

/// What is changed on request, as it is recorded.
std::vector<ConfigChange> changes_on_request(const ResumedRun& run, const CheckpointHeader& stored) {
  std::vector<ConfigChange> changes;
  for (const std::string& key : run.options.changes) {
    ConfigChange change{.key = key,
                        .before = settings::value_of_key(stored.config, key),
                        .after = settings::value_of_key(run.header.config, key),
                        .step = stored.step};
    if (change.before != change.after) changes.push_back(std::move(change));
  }
  return changes;
}

/// A replay follows the record with one config.
void require_no_change_of_record(const ResumedRun& run, const CheckpointHeader& stored) {
  const std::vector<ConfigChange> changes = changes_on_request(run, stored);
  if (!run.plan.config.strategy.record || changes.empty()) return;
  throw ConfigError(
      fmt::format("--change {}: the events of this run are recorded (strategy.record), and a replay would follow them "
                  "with the settings of its beginning; start a new run with --output DIR, from the weights of this one "
                  "with --set train.initialise_from={}",
                  changes.front().key, run.plan.config.run_folder()));
}

/// Versions without data.split_seed chose validation examples by `seed`, and without regard to classes.
void require_same_split_as_stored(const ResumedRun& run, const CheckpointHeader& stored) {
  const data::DataSettings& data = run.plan.config.data;
  if (data.validation_fraction == 0 || stored.config.find("split_seed") != std::string::npos) return;
  if (run.header.inputs.kind == data::SetKind::sparse) {
    throw ConfigError(
        fmt::format("{}: was started by an earlier version, which ordered examples differently when "
                    "data.validation_fraction is set; start a new run with --output DIR",
                    run.plan.config.run_folder()));
  }
  if (data.split_seed == run.plan.config.seed && !data.stratify) return;
  throw ConfigError(
      fmt::format("{}: was started by an earlier version, which chose validation examples differently; to keep them, "
                  "resume with --set data.split_seed={} --set data.stratify=false",
                  run.plan.config.run_folder(), run.plan.config.seed));
}

/// How many replicas trained the model of a checkpoint.
int replicas_of(const CheckpointHeader& stored) {
  const auto number = [&](const char* key) {
    const std::string value = settings::value_of_key(stored.config, key);
    return value.empty() ? 1 : std::stoi(value);
  };
  return stored.ranks / (number("replica.stages") * number("replica.tensor"));
}

/// Into how many parts layers were divided whose sums have a fixed order.
int leaves_of(const std::string& config) {
  int leaves = 1;
  for (const char* const key : {"replica.tensor", "replica.tensor_leaves"}) {
    const std::string value = settings::value_of_key(config, key);
    leaves = value.empty() ? leaves : std::max(leaves, std::stoi(value));
  }
  return leaves;
}

void require_same_shares_as_stored(const ResumedRun& run, const CheckpointHeader& stored) {
  const bool at_own_pace = !stored.worker_steps.empty();  // workers do not go through their shares in step anyway
  if (run.plan.config.data.partition != data::Partition::fixed || at_own_pace) return;
  if (replicas_of(stored) == run.parts.grid.data().size()) return;
  throw ConfigError(
      fmt::format("{}: the run was started on {}, each with a fixed part of the set (data.partition): resume on the "
                  "same number, not on {}",
                  run.plan.config.run_folder(), count_of(stored.ranks, "rank"), run.header.ranks));
}

void require_same_data_as_stored(const ResumedRun& run, const CheckpointHeader& stored) {
  if (stored.data_identity != run.header.data_identity) {
    throw DataError(
        fmt::format("{}: the run was started on different data from {}: resume with the same set, or start a new run "
                    "with --output DIR",
                    run.plan.config.run_folder(), run.plan.config.data.path));
  }
  if (const std::string what = other_form(stored.preprocessing, run.header.preprocessing); !what.empty()) {
    throw DataError(
        fmt::format("{}: since the run was started, {} changed in {}: resume with the same set, imported with the same "
                    "options, or start a new run with --output DIR",
                    run.plan.config.run_folder(), what, run.plan.config.data.path));
  }
}

void require_same_reader_as_stored(const ResumedRun& run, const CheckpointHeader& stored) {
  if (stored.resident == run.header.resident) return;
  const auto reader = [](bool resident) { return resident ? "resident" : "streaming"; };
  throw ConfigError(fmt::format(
      "{}: the run was started with a {} reader, but this one is {} and orders examples differently: "
      "resume with --set data.reader={}",
      run.plan.config.run_folder(), reader(stored.resident), reader(run.header.resident), reader(stored.resident)));
}

std::vector<std::string> differences(const ResumedRun& run, const CheckpointHeader& stored) {
  const CheckpointHeader& now = run.header;
  std::vector<std::string> different;
  const auto compare = [&](const std::string& what, const auto& before, const auto& after) {
    if (before != after) different.push_back(fmt::format("{} ({} before, {} now)", what, before, after));
  };
  compare("ranks", stored.ranks, now.ranks);
  if (stored.ranks == now.ranks) compare("replicas", replicas_of(stored), run.parts.grid.data().size());
  compare("threads", stored.threads, now.threads);
  compare("device", stored.device, now.device);
  if (stored.build != now.build) different.emplace_back("the build of unisono");
  if (stored.layout != now.layout) different.emplace_back("the order of the parameters");
  return different;
}

/// Whether steps of both are the same on any number of replicas.
bool sums_are_reproducible(const settings::Config& config, const std::string& before, const std::string& now) {
  const auto is_same = [&](const std::string& key) {
    return settings::value_of_key(before, key) == settings::value_of_key(now, key);
  };
  return config.communication.tree_leaves() > 0 && is_same("communication.reduction") &&
         is_same("communication.leaves");
}

/// How the run continues although something differs.
std::string_view consequence(const ResumedRun& run, const CheckpointHeader& stored) {
  const ModelParts& parts = run.parts;
  const bool divided = parts.strategy->traits().divides_model;  // then steps do not depend on ranks and threads
  const bool same_program = stored.build == run.header.build && stored.layout == run.header.layout;
  const bool same_replicas = run.plan.config.whole_batch() || replicas_of(stored) == parts.grid.data().size() ||
                             sums_are_reproducible(run.plan.config, stored.config, run.header.config);
  const bool same_machine = stored.threads == run.header.threads && stored.device == run.header.device &&
                            leaves_of(stored.config) == run.plan.config.replica.leaves();
  // Steps do not depend on the stages of replicas.
  if (same_program && (divided || (same_replicas && same_machine))) {
    return "as if it had not stopped, although these differ";
  }
  const bool together = parts.strategy->steps_together() && !parts.model->statistics_are_local();
  if (replicas_of(stored) != parts.grid.data().size() && !divided && !together) {
    return "from there, with different steps or statistics on each rank, because these differ";
  }
  return "as if it had not stopped, up to rounding, not bit for bit, because these differ";
}

/// Called on rank 0.
void require_resumable(const ResumedRun& run, const CheckpointHeader& stored) {
  if (!run.options.takes_over) {
    require_same_config_as_stored(run, stored);
    require_chosen_span(run.plan.config, {stored.config, stored.step, run.steps_per_epoch});
    require_no_change_of_record(run, stored);
  }
  require_same_split_as_stored(run, stored);
  require_same_shares_as_stored(run, stored);
  require_same_data_as_stored(run, stored);
  require_same_reader_as_stored(run, stored);
}

/// Logs where the run continues, and what prevents the same bits.
void say_differences(const ResumedRun& run, const CheckpointHeader& stored, Log& log) {
  log.info(fmt::format("resumed at step {}", stored.step));
  const std::vector<std::string> different = differences(run, stored);
  if (different.empty()) return;
  log.info(fmt::format("the run continues {}: {}", consequence(run, stored), fmt::join(different, ", ")));
}

/// Takes the progress from a stored header; what describes the experiment stays this run's.
void take_progress(const CheckpointHeader& stored, CheckpointHeader& header) {
  header.step = stored.step;
  header.cursor = stored.cursor;
  header.worker_steps = stored.worker_steps;
  header.threads_chosen = stored.threads_chosen;
  header.names = stored.names;
  header.epoch_sums = stored.epoch_sums;
  header.reported_step = stored.reported_step;
  header.divergence = stored.divergence;
  header.evaluation_due = stored.evaluation_due;
  header.changes = stored.changes;
}

/// Each rank goes on adding to its own sum, so that the next report has the bits of a run that was not stopped.
void take_unreported(const ResumedRun& run, const CheckpointHeader& stored) {
  const comm::Communicator& ranks = run.parts.grid.all();
  kernels::LossSums& own = run.training.sums;
  if (std::ssize(stored.unreported) == ranks.size()) {
    own += stored.unreported[static_cast<std::size_t>(ranks.rank())];
  } else if (ranks.is_root()) {
    for (const kernels::LossSums& one : stored.unreported) own += one;
  }
}

/// Logs with what a rank continues in place of the states of other ranks than those there are now.
void say_merged_states(const ResumedRun& run, const StoredCheckpoint& checkpoint, Log& log) {
  if (checkpoint.optimizer_states <= 1 || keeps_states_apart(run.parts, checkpoint)) return;
  const auto& kept = run.training.vectors;
  const auto is = [](bool adds_up) {
    return [adds_up](const parallel::StrategyVector& one) {
      return one.vector.scope != parallel::StateScope::common && one.vector.adds_up == adds_up;
    };
  };
  const std::string ranks = count_of(checkpoint.optimizer_states, "rank");
  if (run.parts.strategy->optimizer_state_is_local() || std::ranges::any_of(kept, is(false))) {
    log.info(fmt::format("{} had their own optimizer states: every rank continues with the mean of these", ranks));
  }
  if (const auto sum = std::ranges::find_if(kept, is(true)); sum != kept.end()) {
    log.info(fmt::format("{} had {}s of their own: every rank continues with an equal share of their sum", ranks,
                         sum->vector.name));
  }
}

void restore(const StoredCheckpoint& checkpoint, const ResumedRun& run, Log& log) {
  say_merged_states(run, checkpoint, log);
  run.parts.held.parameters->begin(checkpoint.header.step);
  restore_state(run.parts, run.training, checkpoint);
}

}  // namespace

Settled settle_as_before(comm::Communicator& group, Settled asked) {
  settings::Config& config = asked.config;
  std::ostringstream file;
  if (group.is_root()) file << std::ifstream(records::config_of(config.run_folder())).rdbuf();
  const std::string text = group.broadcast_text(file.str());
  const auto stored = [&](const std::string& key) {
    return std::strtoll(settings::value_of_key(text, key).c_str(), nullptr, 10);
  };
  const auto keep = [&](auto& field, std::int64_t before, std::string key) {
    asked.choose(field, before, {std::move(key), ChosenBy::resumed_run, "as in the run's config.toml"});
  };
  const std::int64_t batch_size = stored("train.batch_size"), micro_batches = stored("train.micro_batches");
  if (config.strategy.threads == 0) keep(config.strategy.threads, stored("strategy.threads"), "strategy.threads");
  if (config.train.batch_size < 0 && batch_size > 0) keep(config.train.batch_size, batch_size, "train.batch_size");
  if (config.train.micro_batches == 0 && micro_batches > 0)
    keep(config.train.micro_batches, micro_batches, "train.micro_batches");
  const bool divides_rows = settings::value_of_key(text, "data.split_by").empty() && !text.empty();
  if (config.data.split_by == data::SplitBy::automatic && divides_rows) {
    asked.choose(config.data.split_by, data::SplitBy::rows,
                 {"data.split_by", ChosenBy::resumed_run, "groups were not kept together when the run began"});
  }
  const std::string last_batch = settings::value_of_key(text, "train.last_batch");
  const bool is_kept = last_batch.find("keep") != std::string::npos || (last_batch.empty() && !text.empty());
  if (config.train.last_batch == settings::LastBatch::join && is_kept && !config.whole_batch()) {
    asked.choose(config.train.last_batch, settings::LastBatch::keep,
                 {"train.last_batch", ChosenBy::resumed_run, "no batches were joined when the run began"});
  }
  return asked;
}

void resume_from(const StoredCheckpoint& checkpoint, const ResumedRun& run, Log& log) {
  const CheckpointHeader& stored = checkpoint.header;
  comm::Communicator& all = run.parts.grid.all();
  if (all.is_root()) {
    require_resumable(run, stored);
    require_same_vectors(run.parts, run.training, checkpoint);
  }
  all.barrier();  // no rank reads vectors of a checkpoint that rank 0 refuses
  restore(checkpoint, run, log);
  say_differences(run, stored, log);
  take_progress(stored, run.header);
  take_unreported(run, stored);
  for (ConfigChange& change : changes_on_request(run, stored)) run.header.changes.push_back(std::move(change));
  if (!run.plan.config.train.threshold_by.empty()) run.header.threshold = stored.threshold;
  if (run.options.takes_over && stored.cursor.step == 0) {  // steps may have another size than before
    run.header.step = run.header.reported_step = stored.cursor.epoch * run.steps_per_epoch;
  }
  for (const std::string& change :
       {keep_evaluations(stored, run.criteria, *run.parts.model, run.header),
        change_of_span(run.plan.config, {stored.config, stored.step, run.steps_per_epoch})}) {
    if (!change.empty()) log.info(change);
  }
}

namespace {

strategies::EventRecord read_repeatable(const std::string& path, const records::EventFileHeader& here) {
  const records::EventFileHeader recorded = records::read_event_header(path);
  const auto require = [&](bool same, const std::string& what) {
    if (!same) throw CheckpointError(fmt::format("{}: cannot be repeated here bit for bit: {}", path, what));
  };
  require(recorded.data_identity == here.data_identity, "the data set is not the one that was recorded");
  require(recorded.build == here.build, "it was recorded with another build of unisono");
  require(recorded.device == here.device,
          fmt::format("it was recorded on {}, but this is {}", recorded.device, here.device));
  require(recorded.layout == here.layout, "the order of the parameters differs");
  strategies::EventRecord record = records::read_events(path);
  require(!record.segments.empty(), "no steps were recorded");
  return record;
}

}  // namespace

Repetition plan_repetition(const std::string& run, const records::EventFileHeader& here, std::int64_t checkpoint,
                           Log& log) {
  Repetition repetition{.events = read_repeatable(records::events_of(run), here)};
  const std::int64_t recorded = repetition.events.segments.back().last;
  repetition.steps = std::min(recorded, checkpoint);
  if (repetition.steps < recorded) {
    log.info(fmt::format(
        "{}: steps up to {} were recorded, but only those up to the newest checkpoint (step {}) are repeated", run,
        recorded, repetition.steps));
  }
  return repetition;
}

void require_repeated(const Summary& summary, const std::string& run_folder) {
  if (!summary.is_complete() || !summary.comparison) return;
  const Comparison& comparison = *summary.comparison;
  if (comparison.step == summary.steps && comparison.different == 0) return;
  throw TrainingError(fmt::format("{}: the repeated run ended at step {} with different parameters: {}", run_folder,
                                  summary.steps, to_text(comparison)));
}

RunResult replay(Job& job, const std::string& path, const std::string& output, const models::ModelKinds& models) {
  const records::EventFileHeader recorded = records::read_event_header(records::events_of(path));
  settings::Config config =
      settings::parse_config({.path = records::events_of(path), .text = recorded.config, .overrides = {}}, models);
  config.output = output.empty() ? path + "/replay" : output;
  config.train.threads = recorded.threads;
  config.fault = {};  // its effect is contained in the order of events
  config.simulation = {};
  config.strategy.record = false;
  config.strategy.replayed_workers = recorded.workers;
  config.strategy.replayed_servers = recorded.servers;
  const RunOptions options{.existing = output.empty() ? records::Existing::overwrite : records::Existing::refuse,
                           .watching = Watching::none,
                           .compare_with = path,
                           .replayed = path};
  return run(job, job.ranks(), config, options);
}

namespace {

std::int64_t number_of(const std::string& config, const std::string& key) {
  return std::strtoll(settings::value_of_key(config, key).c_str(), nullptr, 10);
}

/// Of the checkpoint's run. Keys that its unisono did not have yet are 0.
optim::Length span_before(const ResumedAt& at) {
  for (const std::string section : {"schedule", "train"}) {
    const std::int64_t steps = number_of(at.config, section + ".steps");
    if (steps > 0) return {.count = steps, .in_steps = true};
    const std::int64_t epochs = number_of(at.config, section + ".epochs");
    if (epochs > 0) return {.count = epochs};
  }
  return {};
}

optim::Schedule schedule_over(const settings::Config& config, const optim::Length& span, std::int64_t steps_per_epoch) {
  return {config.schedule, config.optimizer.learning_rate, span.steps(steps_per_epoch), steps_per_epoch};
}

/// The learning rate from the last step on.
double last_rate(const settings::Config& config, const optim::Length& span, std::int64_t steps_per_epoch) {
  return schedule_over(config, span, steps_per_epoch).rate(span.steps(steps_per_epoch) - 1);
}

bool is_other_span(const settings::Config& config, const ResumedAt& at) {
  const std::int64_t before = span_before(at).steps(at.steps_per_epoch);
  return config.schedule.depends_on_length() && before > 0 &&
         before != config.schedule_length().steps(at.steps_per_epoch);
}

/// "--set schedule.epochs=3"
std::string option_of(const optim::Length& span) {
  return fmt::format("--set schedule.{}={}", span.unit(), span.count);
}

/// "3" beside another length in the same unit, else "3 epochs".
std::string beside(const optim::Length& length, const optim::Length& other) {
  return length.in_steps == other.in_steps ? grouped(length.count) : length.text();
}

}  // namespace

optim::Schedule schedule_of(const settings::Config& config, std::int64_t steps_per_epoch) {
  return schedule_over(config, config.schedule_length(), steps_per_epoch);
}

void require_chosen_span(const settings::Config& config, const ResumedAt& at) {
  if (config.schedule.has_own_length() || !is_other_span(config, at)) return;
  const optim::Length before = span_before(at), now = config.train.length();
  const double last = last_rate(config, before, at.steps_per_epoch);
  const bool is_longer = now.steps(at.steps_per_epoch) > before.steps(at.steps_per_epoch);
  const std::string later = is_longer ? fmt::format(" (it stays at {:.3g} after {} {})", last,
                                                    before.in_steps ? "step" : "epoch", before.count)
                                      : std::string();
  throw ConfigError(fmt::format(
      "{}: train.{} = {} would change the learning rate, which falls over {} (schedule.kind = \"{}\"); "
      "use {} to continue from {:.3g} as planned{}, or {} to let it fall over {} and continue from {:.3g}, or start a "
      "new run with --output DIR",
      config.run_folder(), now.unit(), now.count, before.text(), name_of(config.schedule.kind, optim::kScheduleKinds),
      option_of(before), schedule_over(config, before, at.steps_per_epoch).rate(at.step), later, option_of(now),
      now.text(), schedule_over(config, now, at.steps_per_epoch).rate(at.step)));
}

std::string change_of_span(const settings::Config& config, const ResumedAt& at) {
  if (!is_other_span(config, at)) return "";
  return fmt::format("the learning rate now falls over {} instead of {}: it continues from {:.3g} instead of {:.3g}",
                     config.schedule_length().text(), beside(span_before(at), config.schedule_length()),
                     schedule_of(config, at.steps_per_epoch).rate(at.step),
                     schedule_over(config, span_before(at), at.steps_per_epoch).rate(at.step));
}

std::string span_note(const settings::Config& config, std::int64_t steps_per_epoch) {
  const optim::Length span = config.schedule_length(), run = config.train.length();
  const std::int64_t span_steps = span.steps(steps_per_epoch), run_steps = run.steps(steps_per_epoch);
  if (!config.schedule.depends_on_length() || span_steps == run_steps) return "";
  const optim::Schedule schedule = schedule_of(config, steps_per_epoch);
  if (span_steps < run_steps) {
    const double last = last_rate(config, span, steps_per_epoch);
    return fmt::format("schedule: the learning rate falls over {} of {} and then stays at {:.3g}{}", beside(span, run),
                       run.text(), last, last == 0 ? ", so that nothing more is learned" : "");
  }
  return fmt::format("schedule: the learning rate falls over {}; the run ends after {}, at a rate of {:.3g}",
                     span.text(), beside(run, span), schedule.rate(run_steps - 1));
}

std::string way_to_go_on(const settings::Config& config, std::int64_t steps_per_epoch) {
  const optim::Length span = config.schedule_length(), run = config.train.length();
  if (!config.schedule.depends_on_length()) return fmt::format("a larger train.{} makes it longer", run.unit());
  return fmt::format(
      "to make it longer, set train.{0} and schedule.{1}: schedule.{1} = {2} keeps the learning rate at {3:.3g} from "
      "now on, and a larger one makes it rise again before it falls",
      run.unit(), span.unit(), span.count, last_rate(config, span, steps_per_epoch));
}

}  // namespace unisono::session
