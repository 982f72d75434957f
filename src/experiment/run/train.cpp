#include "unisono/experiment/train.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint/other_form.hpp"
#include "checkpoint/shared_file.hpp"
#include "machine/parts.hpp"
#include "run/agreement.hpp"
#include "run/comparison.hpp"
#include "run/event_file.hpp"
#include "run/initialise_from.hpp"
#include "run/losses.hpp"
#include "run/metrics_log.hpp"
#include "run/progress.hpp"
#include "run/replay.hpp"
#include "run/run_dictionary.hpp"
#include "run/run_folder.hpp"
#include "run/run_state.hpp"
#include "run/schedule_span.hpp"
#include "run/selection.hpp"
#include "run/stop.hpp"
#include "run/summary.hpp"
#include "run/training_observer.hpp"
#include "unisono/base/hash.hpp"
#include "unisono/base/text.hpp"

namespace unisono::experiment {
namespace {

/// Before anything is read or written: the same experiment on every rank, from the same binary.
void require_same_job(comm::Communicator& world, const Config& config) {
  require_same(world, "build", build_hash(), "install the same unisono on all nodes");
  require_same(world, "config", hash_bytes(effective_config(config)),
               "give every rank the same config file and the same --set");
}

/// What rank 0 writes into the run's folder, beside checkpoints.
struct RootFiles {
  std::optional<MetricsLog> metrics;
  std::optional<Progress> progress;
  std::optional<Records> records;
};

Progress::Kind progress_kind(Watching watching) {
  if (watching == Watching::automatic) watching = watching_terminal().empty() ? Watching::lines : Watching::bar;
  if (watching == Watching::none) return Progress::Kind::none;
  return watching == Watching::bar ? Progress::Kind::bar : Progress::Kind::lines;
}

/// One run, from its parts to its summary. Its construction is collective.
class Run {
 public:
  Run(comm::Communicator& world, const Config& config, const TrainOptions& options, Log& log);
  ExitCode train();

 private:
  void begin(const TrainOptions& options);
  std::vector<std::string> initialise();
  void resume(const StoredCheckpoint& checkpoint);
  void check_resumable(const CheckpointHeader& stored) const;
  void require_same_split(const CheckpointHeader& stored) const;
  void say_differences(const CheckpointHeader& stored) const;
  CheckpointHeader fresh_header() const;
  void open_records(const TrainOptions& options);
  EventFileHeader events_header() const;
  void require_shared_folder();
  void require_slow_rank() const;
  void replay(const std::string& run);
  bool is_complete() const;
  std::string way_to_go_on() const;
  void restore_best(const TrainingObserver& observer);
  ExitCode end(TrainingObserver& observer, const Stopwatch& watch);
  void say_start() const;
  std::string batch_statistics() const;
  Summary summarise(const TrainingObserver& observer, double total_seconds);
  std::int64_t total_steps() const { return config_.train.epochs * source_->steps_per_epoch(); }

  comm::Communicator& world_;
  Config config_;  ///< with what the data decide
  Log& log_;
  StopSignals signals_;
  std::unique_ptr<RunFolder> folder_;  // null but on rank 0
  SharedDataset data_;
  ModelParts parts_;
  TrainingParts training_;
  WorkerParts workers_;
  std::unique_ptr<data::BatchSource> source_;
  CheckpointHeader header_;
  Criteria criteria_;
  std::unique_ptr<RootFiles> root_;               // null but on rank 0
  std::unique_ptr<CheckpointStore> checkpoints_;  // after the model, whose layout it may still need
  std::optional<StoredCheckpoint> compared_;      ///< with which the result will be
  RunEvents events_;
  std::optional<strategies::EventRecord> replayed_;
  std::int64_t repeated_steps_ = 0;  ///< of these
};

Run::Run(comm::Communicator& world, const Config& config, const TrainOptions& options, Log& log)
    : world_(world),
      config_(config),
      log_(log),
      folder_(world.is_root() ? std::make_unique<RunFolder>(config.run_folder(), options.existing) : nullptr),
      data_(world, config.data, static_cast<std::uint64_t>(config.seed)),
      parts_(world, settle(config_, data_->info()), inputs_of(data_->info()), log, &*data_),
      training_(parts_, config_),
      workers_(parts_, training_, config_, inputs_of(data_->info()), *data_),
      source_(data_->train(source_options(parts_, config_))) {
  require_same(world, "CPU's instruction set", hash_bytes(kernels::cpu_instruction_set()),
               "give all ranks the environment UNISONO_MAX_ISA=avx2, or portable, so that they compute the same bits");
  require_slow_rank();
  criteria_ = criteria_of(config_, *parts_.model, data_->info());
  require_same(world, "data set", data_->info().identity, "copy the same file to all nodes, or use a shared one");
  header_ = fresh_header();
  if (!options.compare_with.empty()) {
    compared_ = find_compared(parts_, options.compare_with, config_.run_folder(), log_);
  }
  if (!options.replayed.empty()) replay(options.replayed);
  begin(options);
  open_records(options);
  require_shared_folder();
}

void Run::require_slow_rank() const {
  const auto rank = static_cast<int>(config_.fault.slow_rank);
  if (rank < 0) return;
  if (rank >= world_.size()) {
    throw ConfigError(fmt::format("fault.slow_rank: there is no rank {}; this run has {}, numbered from 0", rank,
                                  count_of(world_.size(), "rank")));
  }
  if (!parts_.strategy->data_shard(rank, world_.size())) {
    throw ConfigError(
        fmt::format("fault.slow_rank: rank {} is a server and does not train; choose another rank", rank));
  }
}

/// Up to the newest checkpoint, with which the end is compared: of a run that was killed the record reaches farther.
void Run::replay(const std::string& run) {
  replayed_ = read_repeatable(events_of(run), events_header());
  const std::int64_t recorded = replayed_->segments.back().last;
  repeated_steps_ = std::min(recorded, compared_->header.step);
  if (repeated_steps_ == recorded) return;
  log_.info(
      fmt::format("{}: steps up to {} were recorded, but only those up to the newest checkpoint (step {}) are repeated",
                  run, recorded, repeated_steps_));
}

/// Before hours of training, and not only at the first checkpoint.
void Run::require_shared_folder() {
  if (!is_parted(state_of(parts_, training_))) return;
  world_.barrier();  // rank 0 has written it
  if (all_see(world_, config_.run_folder() + "/config.toml")) return;
  throw OutputError(fmt::format("{}: {}", config_.run_folder(), kMustBeShared));
}

/// Where the run stands before its first step: at initial values, or at a checkpoint.
void Run::begin(const TrainOptions& options) {
  // Before an earlier run is removed, which may be the one that this one starts from.
  std::vector<std::string> said;
  if (options.existing != Existing::resume) said = initialise();
  world_.barrier();
  if (folder_ && options.existing == Existing::overwrite) folder_->clear();
  if (folder_) log_.add_file(folder_->log());
  for (const std::string& line : said) log_.info_to_file(line);
  checkpoints_ = std::make_unique<CheckpointStore>(world_, checkpoints_of(config_.run_folder()), config_.checkpoint);
  if (options.existing == Existing::resume) {
    if (const auto stored = checkpoints_->newest(log_)) return resume(*stored);
    if (folder_) log_.warning(folder_->path() + " holds no checkpoint yet: the run starts at its first step");
    initialise();
  }
}

std::vector<std::string> Run::initialise() {
  parts_.initialise(static_cast<std::uint64_t>(config_.seed));
  return initialise_from_other(parts_, {config_, *data_}, log_);
}

void Run::resume(const StoredCheckpoint& checkpoint) {
  const CheckpointHeader& stored = checkpoint.header;
  if (world_.is_root()) {
    check_resumable(stored);
    require_same_vectors(parts_, training_, checkpoint);
  }
  world_.barrier();  // nobody reads vectors that rank 0 refuses
  if (checkpoint.optimizer_states > 1 && !keeps_states_apart(parts_, checkpoint)) {
    log_.info(fmt::format("{} had their own optimizer states: every rank continues with the mean of these",
                          count_of(checkpoint.optimizer_states, "rank")));
  }
  if (parts_.division != nullptr) parts_.division->begin(stored.step);
  restore_state(parts_, training_, checkpoint);
  say_differences(stored);
  header_.step = stored.step;
  header_.cursor = stored.cursor;
  header_.worker_steps = stored.worker_steps;
  header_.names = stored.names;
  header_.epoch_sums = stored.epoch_sums;
  header_.reported_step = stored.reported_step;
  header_.unreported = stored.unreported;
  header_.divergence = stored.divergence;
  for (const std::string& change :
       {keep_evaluations(stored, criteria_, *parts_.model, header_),
        change_of_span(config_, {stored.config, stored.step, source_->steps_per_epoch()})}) {
    if (!change.empty()) log_.info(change);
  }
  source_->seek(stored.cursor);
  for (strategies::Worker& worker : workers_.workers()) worker.source.seek(stored.cursor);
}

/// Runs of versions that had no data.split_seed chose validation examples by `seed`, without a look at classes.
void Run::require_same_split(const CheckpointHeader& stored) const {
  const data::DataSettings& data = config_.data;
  if (data.validation_fraction == 0 || stored.config.find("split_seed") != std::string::npos) return;
  if (header_.inputs.kind == data::SetKind::sparse) {
    throw ConfigError(
        fmt::format("{}: was started by an earlier version, which ordered examples differently when "
                    "data.validation_fraction is set; start a new run with --output DIR",
                    config_.run_folder()));
  }
  if (data.split_seed == config_.seed && !data.stratify) return;
  throw ConfigError(
      fmt::format("{}: was started by an earlier version, which chose validation examples differently; to keep them, "
                  "resume with --set data.split_seed={} --set data.stratify=false",
                  config_.run_folder(), config_.seed));
}

void Run::check_resumable(const CheckpointHeader& stored) const {
  const auto changed = changes_that_forbid_resuming(stored.config, header_.config);
  if (!changed.empty()) {
    throw ConfigError(
        fmt::format("{}: the run was started with different values of {}: resume with those of its config.toml, or "
                    "start a new run with --output DIR",
                    config_.run_folder(), fmt::join(changed, ", ")));
  }
  require_same_split(stored);
  require_chosen_span(config_, {stored.config, stored.step, source_->steps_per_epoch()});
  const bool at_own_pace = !stored.worker_steps.empty();  // whose parts are not passed through together anyway
  if (config_.data.partition == "fixed" && stored.ranks != header_.ranks && !at_own_pace) {
    throw ConfigError(
        fmt::format("{}: the run was started on {}, each with a fixed part of the set (data.partition): resume on the "
                    "same number, not on {}",
                    config_.run_folder(), count_of(stored.ranks, "rank"), header_.ranks));
  }
  if (stored.data_identity != header_.data_identity) {
    throw CheckpointError(
        fmt::format("{}: the run was started on different data from {}: resume with the same set, or start a new run "
                    "with --output DIR",
                    config_.run_folder(), config_.data.path));
  }
  if (const std::string what = other_form(stored.preprocessing, header_.preprocessing); !what.empty()) {
    throw CheckpointError(
        fmt::format("{}: since the run was started, {} changed in {}: resume with the same set, imported with the same "
                    "options, or start a new run with --output DIR",
                    config_.run_folder(), what, config_.data.path));
  }
  if (stored.resident != header_.resident) {
    const auto reader = [](bool resident) { return resident ? "resident" : "streaming"; };
    throw ConfigError(
        fmt::format("{}: the run was started with a {} reader, but this one is {} and orders examples differently: "
                    "resume with --set data.reader={}",
                    config_.run_folder(), reader(stored.resident), reader(header_.resident), reader(stored.resident)));
  }
}

/// What stands between the resumed run and the same bits.
void Run::say_differences(const CheckpointHeader& stored) const {
  std::vector<std::string> different;
  const auto compare = [&](const std::string& what, const auto& before, const auto& now) {
    if (before != now) different.push_back(fmt::format("{} ({} before, {} now)", what, before, now));
  };
  compare("ranks", stored.ranks, header_.ranks);
  compare("threads", stored.threads, header_.threads);
  compare("device", stored.device, header_.device);
  if (stored.build != header_.build) different.emplace_back("the build of unisono");
  if (stored.layout != header_.layout) different.emplace_back("the order of the parameters");
  log_.info(fmt::format("resumed at step {}", stored.step));
  if (different.empty()) return;
  const bool parted = parts_.division != nullptr;  // whose steps are the same on any ranks and threads
  if (parted && stored.build == header_.build && stored.layout == header_.layout) {
    log_.info(fmt::format("the run continues as if it had not stopped, although these differ: {}",
                          fmt::join(different, ", ")));
    return;
  }
  if (stored.ranks != header_.ranks && !parted &&
      (!parts_.strategy->steps_together() || parts_.model->statistics_are_local())) {
    log_.info(fmt::format(
        "the run continues from there, with different steps or statistics on each rank, because these differ: {}",
        fmt::join(different, ", ")));
    return;
  }
  log_.info(fmt::format(
      "the run continues as if it had not stopped, up to rounding, not bit for bit, because these differ: {}",
      fmt::join(different, ", ")));
}

CheckpointHeader Run::fresh_header() const {
  return {.step = 0,
          .cursor = {},
          .worker_steps = {},
          .optimizer_steps = 0,
          .seed = static_cast<std::uint64_t>(config_.seed),
          .config = effective_config(config_),
          .inputs = inputs_of(data_->info()),
          .preprocessing = data_->preprocessing(),
          .data_identity = data_->info().identity,
          .resident = data_->info().resident,
          .epoch_sums = {},
          .reported_step = 0,
          .unreported = {},
          .best = 0,
          .has_best = false,
          .best_by = {},
          .stopping_by = {},
          .divergence = {},
          .averaged = training_.average != nullptr,
          .names = 0,
          .ranks = world_.size(),
          .threads = parts_.placement.threads,
          .device = parts_.device(),
          .build = build_hash(),
          .layout = parts_.model->layout().hash()};
}

void Run::open_records(const TrainOptions& options) {
  if (!folder_) return;
  root_ = std::make_unique<RootFiles>();
  const std::uint64_t names = keep_dictionary(config_.data.path, folder_->dictionary());
  if (header_.names == 0) header_.names = names;
  const int workers = parts_.workers();
  write_text_file(folder_->config(),
                  fmt::format("# {}{}: a rank takes {} of each step\n{}", count_of(world_.size(), "rank"),
                              workers == world_.size() ? "" : fmt::format(", of which {} train", workers),
                              local_batch_text(config_.train.batch_size, workers), header_.config));
  root_->metrics.emplace(folder_->metrics(), header_.step);
  root_->progress.emplace(progress_kind(options.watching), log_);
  root_->records.emplace(Records{*root_->metrics, *root_->progress});
  if (config_.strategy.record) events_.open(folder_->events(), events_header(), header_.step);
}

/// What a record is begun with, and what it must still be when it is gone on with or repeated.
EventFileHeader Run::events_header() const {
  return {.workers = parts_.workers(),
          .servers = parts_.strategy->servers(world_.size()),
          .threads = parts_.placement.threads,
          .device = header_.device,
          .data_identity = header_.data_identity,
          .build = header_.build,
          .layout = header_.layout,
          .schedule_steps = config_.schedule.kind == optim::ScheduleKind::constant
                                ? 0
                                : config_.schedule_epochs() * source_->steps_per_epoch(),
          .config = header_.config};
}

std::string Run::batch_statistics() const {
  if (parts_.model->statistics_layout().size() == 0) return "none";
  return parts_.model->statistics_are_local() ? "local" : "global";
}

std::string way_of_examples(std::size_t kept_bytes) {
  if (kept_bytes == 0) return "examples are copied to the GPU batch by batch";
  return fmt::format("the GPU keeps the training set: {:.1f} MiB", static_cast<double>(kept_bytes) / (1 << 20));
}

void Run::say_start() const {
  log_.info(fmt::format("{}: {}, {}, {} an epoch, {}", config_.name,
                        count_of(parts_.model->layout().parameters(), "parameter"),
                        count_of(source_->examples_per_epoch(), "training example"),
                        count_of(source_->steps_per_epoch(), "step"), count_of(config_.train.epochs, "epoch")));
  log_.info(fmt::format("{} on {} × {} ({}), a rank's batch: {}", config_.strategy.kind,
                        ranks_text(world_.size(), parts_.workers()), count_of(parts_.placement.threads, "thread"),
                        parts_.device(), local_batch_text(config_.train.batch_size, parts_.workers())));
  for (const std::string& note :
       {note_on_best(config_, data_->info()), span_note(config_, source_->steps_per_epoch())}) {
    if (!note.empty()) log_.info(note);
  }
  for (const std::string& note : parts_.model->notes()) log_.info(note);
  if (training_.average) log_.info("evaluations and predictions use averaged weights (train.weight_average)");
  if (parts_.backend->device() != nullptr) log_.info(way_of_examples(parts_.backend->kept_bytes()));
  if (config_.fault.is_on() && world_.is_root()) log_.warning(config_.fault.text());
}

/// Whether the summary that a run left is of all these steps, and complete: at its end, or by the same early stopping.
bool is_summarised(const std::string& path, std::int64_t steps, bool at_end, const Config& config) {
  const auto summary = read_summary(path, steps);
  if (summary.value("status", nlohmann::ordered_json()) != "complete") return false;
  return stopped_early_by(summary, config) || (at_end && !summary.contains("stopped_early"));
}

/// Resumed at its end, and with a summary: another one would be of no steps, or of those at whose end it stopped early.
bool Run::is_complete() const {
  const bool at_end = header_.step >= total_steps();
  return world_.max(root_ && is_summarised(folder_->summary(), header_.step, at_end, config_) ? 1 : 0) != 0;
}

std::string Run::way_to_go_on() const {
  return header_.step < total_steps() ? "it stopped early; a larger train.early_stopping.patience lets it continue"
                                      : unisono::experiment::way_to_go_on(config_, source_->steps_per_epoch());
}

/// After a run that stopped early: the model, and the newest checkpoint, are the best ones. Collective.
void Run::restore_best(const TrainingObserver& observer) {
  const std::int64_t step = observer.best().step;
  checkpoints_->go_back_to_best(step);
  const StoredCheckpoint best = open_checkpoint(world_, checkpoints_->best());
  if (parts_.division != nullptr) parts_.division->begin(step);
  restore_state(parts_, training_, best);
  log_.info(fmt::format("stopped early: the best weights are those of epoch {}, with a {} of {:.4g}",
                        step / source_->steps_per_epoch(), observer.best().criterion, observer.best().value));
}

ExitCode Run::train() {
  if (is_complete()) {
    log_.info(fmt::format("{}: already complete; {}", config_.run_folder(), way_to_go_on()));
    return ExitCode::success;
  }
  say_start();
  const optim::Schedule schedule = schedule_of(config_, source_->steps_per_epoch());
  TrainingObserver observer({.config = config_,
                             .parts = parts_,
                             .training = training_,
                             .data = *data_,
                             .signals = signals_,
                             .steps_per_epoch = source_->steps_per_epoch(),
                             .checkpoints = *checkpoints_,
                             .criteria = criteria_,
                             .records = root_ ? &*root_->records : nullptr,
                             .header = header_});
  strategies::Fault fault(config_.fault, static_cast<std::uint64_t>(config_.seed), world_.rank());
  strategies::TrainContext context{.communicator = parts_.grid.data(),
                                   .backend = *parts_.backend,
                                   .model = *parts_.model,
                                   .optimizer = *training_.optimizer,
                                   .optimizer_settings = config_.optimizer,
                                   .source = *source_,
                                   .schedule = schedule,
                                   .observer = observer,
                                   .state = parts_.state(),
                                   .gradient = training_.gradient.view(),
                                   .sums = training_.sums,
                                   .seconds = training_.seconds,
                                   .counters = training_.counters,
                                   .first_step = header_.step,
                                   .total_steps = replayed_ ? repeated_steps_ : total_steps(),
                                   .bucket_bytes = config_.communication.bucket_bytes,
                                   .statistics_reducer = &parts_.statistics_reducer,
                                   .threads = parts_.placement.threads,
                                   .vectors = training_.vectors,
                                   .workers = workers_.workers(),
                                   .worker_steps = header_.worker_steps,
                                   .fault = config_.fault.is_on() ? &fault : nullptr,
                                   .recorder = config_.strategy.record ? &events_ : nullptr,
                                   .replayed = replayed_ ? &*replayed_ : nullptr};
  const Stopwatch watch;
  if (header_.step < total_steps()) parts_.strategy->train(context);
  return end(observer, watch);
}

/// What is left to do when the last step is made. Collective.
ExitCode Run::end(TrainingObserver& observer, const Stopwatch& watch) {
  if (observer.stopped_early()) restore_best(observer);
  observer.finish();
  Summary summary = summarise(observer, watch.seconds());
  if (compared_ && summary.is_complete()) summary.comparison = compare(parts_, *compared_, log_);
  if (replayed_) require_repeated(summary, config_.run_folder());
  if (root_) {
    write_text_file(folder_->summary(), to_json(summary, config_).dump(2) + "\n");
    if (observer.divergence().empty()) root_->progress->line(to_text(summary, config_));
  }
  if (!observer.divergence().empty()) {
    throw TrainingError(fmt::format("{} diverged: {}", config_.run_folder(), observer.divergence()));
  }
  return observer.interrupted() ? ExitCode::interrupted : ExitCode::success;
}

Summary Run::summarise(const TrainingObserver& observer, double total_seconds) {
  strategies::Seconds seconds = training_.seconds;
  seconds.other = total_seconds - seconds.sum();
  const std::int64_t steps_per_epoch = source_->steps_per_epoch();
  const bool diverged = !observer.divergence().empty();
  return {.ending = diverged                 ? Ending::diverged
                    : observer.interrupted() ? Ending::interrupted
                                             : Ending::complete,
          .stopped_early = observer.stopped_early(),
          .best = observer.best(),
          .steps_per_epoch = steps_per_epoch,
          .ranks = world_.size(),
          .workers = parts_.workers(),
          .threads = parts_.placement.threads,
          .parameters = parts_.model->layout().parameters(),
          .epochs = observer.steps() / steps_per_epoch,
          .steps = observer.steps(),
          .resumed_at_step = header_.step,
          .epochs_made = static_cast<double>(observer.steps() - header_.step) / static_cast<double>(steps_per_epoch),
          .examples = observer.examples(),
          .flops_per_example = parts_.model->flops_per_example(),
          .counters = sum_over_ranks(world_, training_.counters),
          .train = observer.train_metrics(),
          .evaluations = observer.evaluations(),
          .serving = gather_serving(world_, training_.counters.shards),
          .seconds = mean_over_ranks(world_, seconds, parts_.trains()),
          .peak_memory_bytes = world_.max(peak_memory_bytes()),
          .batch_statistics = batch_statistics(),
          .device = parts_.device(),
          .config_hash = hash_bytes(header_.config),
          .data_identity = header_.data_identity,
          .build = header_.build};
}

}  // namespace

ExitCode train(comm::Communicator& world, const Config& config, const TrainOptions& options, Log& log) {
  require_same_job(world, config);
  return Run(world, config, options, log).train();
}

}  // namespace unisono::experiment
