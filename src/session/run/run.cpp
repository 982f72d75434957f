#include "unisono/session/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>

#include "checkpoint/checkpoint_store.hpp"
#include "run/comparison.hpp"
#include "run/initialise_from.hpp"
#include "run/kept_models.hpp"
#include "run/resume.hpp"
#include "run/run_outputs.hpp"
#include "run/summarise.hpp"
#include "run/summary.hpp"
#include "run/times_of_ranks.hpp"
#include "run/training_observer.hpp"
#include "run/word_vectors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/records/event_file.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/session/run_state.hpp"
#include "unisono/session/training_parts.hpp"
#include "unisono/session/weight_average.hpp"

namespace unisono::session {
namespace {

/// Of methods whose steps are passes over the whole training set, which read it themselves: only counts.
class WholeSetSource final : public data::BatchSource {
 public:
  explicit WholeSetSource(std::int64_t examples) : examples_(examples) {}

  data::Batch next() override { throw std::logic_error("a step on the whole set has no batches"); }
  std::int64_t steps_per_epoch() const override { return 1; }
  std::int64_t examples_per_epoch() const override { return examples_; }
  void seek(const data::DataCursor&) override {}
  double wait_seconds() const override { return 0; }

 private:
  std::int64_t examples_;
};

/// What the model predicts for the validation examples: [examples, output_size], the same on every rank. Collective.
/// \throws ConfigError where the ranks hold parts of the model
std::vector<float> validation_outputs(ModelParts& parts, TrainingParts& training, data::Dataset& data,
                                      const settings::Config& config) {
  if (!parts.held.parameters->held_by_all()) {
    throw ConfigError(
        "predictions of validation examples need a model that each rank holds as a whole: remove replica.stages, "
        "replica.tensor and replica.tensor_leaves, or choose another strategy than stratified");
  }
  if (data.info().validation == 0) return {};
  const WeightAverage::InPlace applied(parts, training.average.get());
  comm::Communicator& ranks = parts.grid.all();
  const auto source = data.evaluate(data::Split::validation, ranks.rank(), ranks.size(),
                                    config.train.evaluation_batch_size, parts.delivery());
  const auto width = static_cast<std::size_t>(parts.model->output_size());
  std::vector<float> outputs;
  while (const auto batch = source->next()) {
    const std::size_t before = outputs.size(), count = static_cast<std::size_t>(batch->size) * width;
    outputs.resize(before + count);
    parts.model->predict(*batch, parts.state(), std::span(outputs).subspan(before));
  }
  return ranks.all_gather_joined(outputs);
}

/// What `say_start` describes.
struct StartOfRun {
  const RunPlan& plan;
  const ModelParts& parts;
  const TrainingParts& training;
  const data::BatchSource& source;
  std::string threads_text;                  ///< how their number was chosen; empty: it was not
  const std::vector<std::string>& warnings;  ///< about the examples
};

std::string examples_on_device(std::size_t kept_bytes) {
  if (kept_bytes == 0) return "examples are copied to the GPU batch by batch";
  return fmt::format("the GPU keeps the training set: {:.1f} MiB", static_cast<double>(kept_bytes) / (1 << 20));
}

void say_size(const StartOfRun& run, Log& log) {
  log.info(fmt::format("{}: {}, {}, {} an epoch, {}", on_one_line(run.plan.config.name),
                       count_of(run.parts.model->layout().parameters(), "parameter"),
                       count_of(run.source.examples_per_epoch(), "training example"),
                       count_of(run.source.steps_per_epoch(), "step"), run.plan.config.train.length().text()));
}

void say_ranks(const StartOfRun& run, Log& log) {
  const ModelParts& parts = run.parts;
  const int stages = parts.grid.shape().stages;
  log.info(fmt::format("{} on {} × {} ({}), a {}'s batch: {}", run.plan.config.strategy.kind,
                       ranks_text(run.plan.config, parts.grid.all().size(), parts.workers(), stages),
                       count_of(parts.placement.threads, "thread"), parts.device(),
                       run.plan.config.ranks_of_replica() > 1 ? "replica" : "rank",
                       local_batch_text(run.plan.config, parts.workers())));
  if (!run.threads_text.empty()) log.info(run.threads_text);
  if (!parts.placement.quota_text.empty()) log.info(parts.placement.quota_text);
  for (int stage = 0; stage < stages && stages > 1; ++stage) {
    log.info(fmt::format("stage {}: {}", stage, parts.stages->text_of(stage)));
  }
}

/// What happens to the examples of an epoch that make no whole step; empty: they make a smaller one.
std::string note_on_last_step(const StartOfRun& run) {
  const std::int64_t examples = run.source.examples_per_epoch(), steps = run.source.steps_per_epoch();
  const std::int64_t batch = run.plan.config.train.batch_size, left = examples - steps * batch;
  if (!data::has_free_steps(run.plan.data().info().kind) || run.plan.config.whole_batch() || left <= 0) return "";
  if (run.plan.config.train.last_batch == settings::LastBatch::drop) {
    return fmt::format("train.last_batch = \"drop\": {} of each epoch {} left out", count_of(left, "example"),
                       left == 1 ? "is" : "are");
  }
  return fmt::format(
      "the last {} of each epoch {} the step before, because batch normalisation needs more than one value of a "
      "channel",
      count_of(left, "example"), left == 1 ? "joins" : "join");
}

/// Logs what a run is about to do, before its first step, on rank 0 of its group.
void say_start(const StartOfRun& run, Log& log) {
  const ModelParts& parts = run.parts;
  if (!parts.grid.all().is_root()) return;
  say_size(run, log);
  say_ranks(run, log);
  const data::DatasetInfo& info = run.plan.data().info();
  for (const std::string& note : {note_on_groups(info), note_on_cut_texts(info), note_on_best(run.plan.config, info),
                                  note_on_last_step(run), span_note(run.plan.config, run.source.steps_per_epoch())}) {
    if (!note.empty()) log.info(note);
  }
  for (const std::string& warning : run.warnings) {
    if (!warning.empty()) log.warning(warning);
  }
  for (const std::string& note : parts.model->notes()) log.info(note);
  if (run.training.average) log.info("evaluations and predictions use averaged weights (train.weight_average)");
  if (parts.backend->device() != nullptr) log.info(examples_on_device(parts.backend->kept_bytes()));
  if (run.plan.config.fault.is_on()) log.warning(run.plan.config.fault.text());
}

/// The checkpoint header of a new run, at step 0. \param averaged whether weights are averaged
CheckpointHeader first_header(const RunPlan& plan, const ModelParts& parts, bool averaged) {
  CheckpointHeader header;
  data::Dataset& data = plan.data();
  header.seed = static_cast<std::uint64_t>(plan.config.seed);
  header.config = settings::effective_config(plan.config);
  header.threads_chosen = plan.trial_of_threads() != nullptr && plan.config.strategy.threads > 0;
  header.inputs = inputs_of(data.info());
  header.preprocessing = data.preprocessing();
  const std::vector<bool> seen = data.seen_classes();
  for (std::size_t label = 0; label < seen.size(); ++label) {
    if (!seen[label]) header.preprocessing.untrained_classes.push_back(static_cast<std::int32_t>(label));
  }
  header.data_identity = data.info().identity;
  header.resident = data.info().resident;
  header.averaged = averaged;
  header.ranks = parts.grid.all().size();
  header.threads = parts.placement.threads;
  header.device = parts.device();
  header.build = build_hash();
  header.layout = parts.model->layout().hash();
  return header;
}

/// The header of a run's record of events, which must be the same when the record is continued or replayed.
records::EventFileHeader events_header(const CheckpointHeader& header, const settings::Config& config,
                                       const ModelParts& parts, std::int64_t steps_per_epoch) {
  return {.workers = parts.workers(),
          .servers = parts.strategy->event_lists(header.ranks),
          .threads = header.threads,
          .device = header.device,
          .data_identity = header.data_identity,
          .build = header.build,
          .layout = header.layout,
          .schedule_steps = config.schedule.kind == optim::ScheduleKind::constant
                                ? 0
                                : config.schedule_length().steps(steps_per_epoch),
          .config = header.config};
}

/// This rank's training batches, or only their number where steps take the whole set.
std::unique_ptr<data::BatchSource> make_source(const ModelParts& parts, const settings::Config& config,
                                               data::Dataset& data) {
  if (config.whole_batch()) return std::make_unique<WholeSetSource>(data.info().train);
  return data.train(source_options(parts, config));
}

std::uint64_t seed_of(const settings::Config& config) { return static_cast<std::uint64_t>(config.seed); }

/// One run, from making its parts to its result. Its construction is collective.
class Run {
 public:
  /// \param plan must outlive it
  Run(Job& job, const RunPlan& plan, const RunOptions& options);
  RunResult train();

 private:
  void find_other_run();
  void begin();
  std::vector<std::string> initialise();
  void resume(const StoredCheckpoint& checkpoint);
  records::EventFileHeader events_header_now() const;
  void require_places();
  std::vector<ConfigChange> changes_now() const;
  bool is_complete() const;
  /// How the number of threads was chosen, if the config left it open; else empty.
  std::string threads_text() const;
  RunResult already_complete();
  void make_steps(TrainingObserver& observer);
  ObserverContext observer_context();
  void restore_best(const TrainingObserver& observer);
  RunResult end(TrainingObserver& observer, double seconds);
  void warn_of_alike_vectors();
  std::string name() const { return outputs_.in_folder() ? config_.run_folder() : on_one_line(config_.name); }
  std::int64_t total_steps() const { return config_.train.length().steps(source_->steps_per_epoch()); }

  Job& job_;
  const RunPlan& plan_;
  const RunOptions& options_;
  const settings::Config& config_;  ///< the plan's, as group and set are
  comm::Communicator& group_;
  data::Dataset& data_;
  Log log_;
  RunOutputs outputs_;
  ModelParts parts_;
  TrainingParts training_;
  WorkerParts workers_;
  std::unique_ptr<models::Objective> objective_;  ///< null where steps take batches
  std::unique_ptr<data::BatchSource> source_;
  CheckpointHeader header_;
  Criteria criteria_;
  std::optional<CheckpointStore> checkpoints_;  // declared after the model, because it may still need its layout
  std::unique_ptr<KeptModels> kept_;
  std::optional<StoredCheckpoint> compared_;  ///< with which the result will be compared
  std::optional<Repetition> repetition_;
  std::vector<std::string> warnings_;  ///< about the examples; of rank 0
  bool ends_otherwise_ = false;        ///< whether this resumed run has other tolerances than before
};

Run::Run(Job& job, const RunPlan& plan, const RunOptions& options)
    : job_(job),
      plan_(plan),
      options_(options),
      config_(plan.config),
      group_(plan.group),
      data_(plan.data()),
      log_(job.log(), group_.rank()),
      outputs_(plan, options),
      parts_({group_, job.place(), log_, job.runtime()}, config_, inputs_of(data_.info()), &data_),
      training_(parts_, config_),
      workers_(parts_, training_, config_, data_),
      objective_(make_objective(parts_, config_, data_)),
      source_(make_source(parts_, config_, data_)) {
  require_same_instructions(group_);
  require_slow_rank(config_, parts_);
  require_examples(config_, parts_, data_.info().train);
  criteria_ = criteria_of(config_, *parts_.model, data_.info());
  if (!options.in_older_job && config_.train.trains()) {
    optim::require_base_rate(config_.schedule, config_.train.length(), source_->steps_per_epoch());
  }
  require_same_data(group_, data_.info());
  const bool is_new = options.existing != records::Existing::resume && !options.in_older_job;
  warnings_ = require_variety(config_, *parts_.model, data_, criteria_, is_new);
  for (const std::string& note : notes_on_split(config_, *parts_.model, data_)) warnings_.push_back(note);
  warnings_.push_back(warning_on_small_text(config_.data.path, data_));
  if (group_.is_root()) warnings_.push_back(warning_on_scales(config_, data_));
  header_ = first_header(plan, parts_, training_.average != nullptr);
  find_other_run();
  begin();
}

/// Finds the run with which the result is compared, or that is replayed.
void Run::find_other_run() {
  if (options_.compare_with.empty()) return;
  compared_ = find_compared(parts_, options_.compare_with, config_.run_folder(), log_);
  if (!options_.replayed.empty()) {
    repetition_ = plan_repetition(options_.replayed, events_header_now(), compared_->header.step, log_);
  }
}

/// Brings the run to its first step: initial values, or a checkpoint.
void Run::begin() {
  // Before an earlier run in this folder is removed, because this run may start from its weights.
  const bool resumes = options_.existing == records::Existing::resume;
  std::vector<std::string> said;
  if (!resumes) said = initialise();
  group_.barrier();
  outputs_.begin(log_, said);
  if (!outputs_.in_folder()) {
    kept_ = keep_in_memory(parts_, config_.train.early_stopping.is_on());
    return;
  }
  checkpoints_.emplace(group_, records::checkpoints_of(config_.run_folder()), config_.checkpoint, &log_);
  kept_ = keep_in(*checkpoints_, parts_, training_);
  if (!resumes) return;
  checkpoints_->recover(log_);
  if (const auto stored = checkpoints_->newest(log_)) {
    checkpoints_->relink_best(*stored);
    return resume(*stored);
  }
  if (group_.is_root())
    log_.warning(config_.run_folder() + " holds no checkpoint yet: the run starts at its first step");
  initialise();
}

/// \return what was logged about it
std::vector<std::string> Run::initialise() {
  parts_.initialise(seed_of(config_));
  return initialise_from_other(parts_, {config_, data_}, log_);
}

void Run::resume(const StoredCheckpoint& checkpoint) {
  const auto changed = settings::changed_keys(checkpoint.header.config, header_.config);
  ends_otherwise_ = std::ranges::any_of(changed, [](const auto& key) { return key.starts_with("optimizer."); });
  resume_from(checkpoint, {plan_, parts_, training_, criteria_, header_, source_->steps_per_epoch(), options_}, log_);
  source_->seek(header_.cursor);
  for (strategies::Worker& worker : workers_.workers()) worker.source.seek(header_.cursor);
}

records::EventFileHeader Run::events_header_now() const {
  return events_header(header_, config_, parts_, source_->steps_per_epoch());
}

/// Checks at the start, and not only at the first checkpoint, that nodes have room for copies in memory, and that all
/// ranks see the folder if each writes a part.
void Run::require_places() {
  const StoredVectors state = state_of(parts_, training_);
  if (checkpoints_) checkpoints_->require_room(state);
  if (!outputs_.in_folder() || std::ranges::none_of(state, &StoredVector::is_divided)) return;
  group_.barrier();  // rank 0 has now written config.toml
  if (all_see(group_, config_.run_folder() + "/config.toml")) return;
  throw OutputError(fmt::format("{}: {}", config_.run_folder(), kMustBeShared));
}

/// What a resumed run changes on request from its first step on.
std::vector<ConfigChange> Run::changes_now() const {
  std::vector<ConfigChange> changes;
  std::ranges::copy_if(header_.changes, std::back_inserter(changes), [&](const ConfigChange& change) {
    return change.step == header_.step && std::ranges::count(options_.changes, change.key) > 0;
  });
  return changes;
}

/// Whether a resumed run is already complete and has its summary; a new summary would cover no steps.
bool Run::is_complete() const {
  const bool at_end = header_.step >= total_steps();
  const bool is_summarised = outputs_.is_summarised(header_.step, at_end, ends_otherwise_);
  return group_.max(is_summarised ? 1 : 0) != 0;
}

RunResult Run::already_complete() {
  const std::string way_on = config_.whole_batch() ? outputs_.way_on(header_.step)
                             : header_.step < total_steps()
                                 ? "it stopped early; a larger train.early_stopping.patience lets it continue"
                                 : way_to_go_on(config_, source_->steps_per_epoch());
  log_.info(fmt::format("{}: already complete; {}", config_.run_folder(), way_on));
  if (!changes_now().empty()) log_.info("no step follows, so that --change has changed nothing");
  RunResult result;
  result.status = RunStatus::already_complete;
  result.best = header_.best_by;
  result.steps_per_epoch = source_->steps_per_epoch();
  result.steps = header_.step;
  result.epochs = header_.step / result.steps_per_epoch;
  return result;
}

std::string Run::threads_text() const {
  if (const Choice* trial = plan_.trial_of_threads()) return "strategy.threads = 0: " + trial->why;
  if (!header_.threads_chosen) return "";
  return fmt::format("{} a rank, as chosen when the run began", count_of(parts_.placement.threads, "thread"));
}

RunResult Run::train() {
  if (is_complete()) return already_complete();
  outputs_.open({parts_, events_header_now(), job_.runtime()}, header_, log_);
  require_places();
  const std::vector<ConfigChange> changes = changes_now();
  for (const ConfigChange& change : changes) {
    log_.info(fmt::format("changed on request: {} from {} to {}", change.key, change.before, change.after));
  }
  say_start({plan_, parts_, training_, *source_, threads_text(), warnings_}, log_);
  TrainingObserver observer(observer_context());
  const Stopwatch watch(job_.runtime());
  if (header_.step < total_steps() && observer.make_up_evaluation()) {
    if (!changes.empty()) observer.write_checkpoint_of_start();
    make_steps(observer);
  }
  if (observer.stopped_early()) restore_best(observer);
  observer.finish();
  return end(observer, watch.seconds());
}

ObserverContext Run::observer_context() {
  const auto wish = [this] {
    if (job_.received_signal() != 0) return StopWish::signal;
    return options_.stop && options_.stop() ? StopWish::asked : StopWish::none;
  };
  return {.plan = plan_,
          .parts = parts_,
          .training = training_,
          .wish = wish,
          .evaluated = options_.evaluated,
          .before_checkpoint = options_.before_checkpoint,
          .steps_per_epoch = source_->steps_per_epoch(),
          .kept = *kept_,
          .criteria = criteria_,
          .records = outputs_.records(),
          .clock = job_.runtime(),
          .header = header_};
}

void Run::make_steps(TrainingObserver& observer) {
  const optim::Schedule schedule = schedule_of(config_, source_->steps_per_epoch());
  parts_.share_parameters();
  parallel::Fault fault(config_.fault, seed_of(config_), plan_.given_rank);
  strategies::TrainContext context{step_terms(parts_, training_, config_, {*source_, header_.step, job_.runtime()}),
                                   {.optimizer_settings = config_.optimizer,
                                    .schedule = schedule,
                                    .observer = observer,
                                    .total_steps = repetition_ ? repetition_->steps : total_steps(),
                                    .threads = parts_.placement.threads,
                                    .seed = seed_of(config_)},
                                   {.workers = workers_.workers(),
                                    .worker_steps = header_.worker_steps,
                                    .recorder = config_.strategy.record ? &outputs_.events() : nullptr,
                                    .replayed = repetition_ ? &repetition_->events : nullptr},
                                   {.method = training_.method.get(), .objective = objective_.get(), .data = &data_}};
  if (config_.fault.is_on()) context.fault = &fault;
  std::optional<TimesOfRanks> times;
  if (job_.runtime().is_virtual()) {
    group_.begin_arrivals(0);
  } else if (config_.communication.record_times && outputs_.in_folder()) {
    if (header_.step > 0) {
      TimesOfRanks::forget(group_, config_.run_folder(), log_);
    } else {
      times.emplace(group_);
      context.gradients = &times->gradients();
    }
  }
  if (options_.before_steps) options_.before_steps();
  parts_.strategy->train(context);
  if (times) times->write(config_.run_folder());
}

/// After early stopping: restores the best model, and makes its checkpoint the newest. Collective.
void Run::restore_best(const TrainingObserver& observer) {
  const BestEvaluation& best = observer.best();
  if (best.criterion.empty()) {
    const std::string metric = criteria_.best ? criteria_.best->text() : "the metric of checkpoint.best";
    if (group_.is_root()) {
      log_.warning(
          fmt::format("stopped early with the weights of the last epoch: {} was undefined in every evaluation, "
                      "so that there is no best checkpoint",
                      metric));
    }
    return;
  }
  kept_->restore_best(best.step);
  log_.info(fmt::format("stopped early: the best weights are those of {}, with a {} of {:.4g}",
                        place_text(best.step, source_->steps_per_epoch()), best.criterion, best.value));
}

void Run::warn_of_alike_vectors() {
  const bool are_words = data_.info().kind == data::SetKind::text || data_.info().kind == data::SetKind::cooccurrences;
  if (!are_words || !group_.is_root() || !parts_.held.parameters->held_by_all() || !parts_.backend->memory().is_plain())
    return;
  const std::string warning = warning_on_collapse(*parts_.model, parts_.parameters.view());
  if (!warning.empty()) log_.warning(warning);
}

/// Makes comparison, summary and result when the model is final. Collective.
RunResult Run::end(TrainingObserver& observer, double seconds) {
  Summary summary = summarise({plan_, parts_, training_, header_, observer, source_->steps_per_epoch(), seconds});
  summary.in_folder = outputs_.in_folder();
  if (compared_ && summary.is_complete()) summary.comparison = compare(parts_, *compared_, log_);
  const std::string unequal = repetition_ ? "" : warning_on_shares(summary.worker_steps);
  if (!unequal.empty() && parts_.grid.all().is_root()) log_.warning(unequal);
  warn_of_alike_vectors();
  if (repetition_) require_repeated(summary, config_.run_folder());
  outputs_.write(summary);
  if (summary.is_complete() && options_.stored) options_.stored();
  if (options_.parameters != nullptr) *options_.parameters = parts_.whole_parameters();
  if (options_.validation_outputs != nullptr && summary.is_complete()) {
    *options_.validation_outputs = validation_outputs(parts_, training_, data_, config_);
  }
  return result_of(summary, observer, name());
}

}  // namespace

RunResult run(Job& job, comm::Communicator& group, const settings::Config& config, const RunOptions& options) {
  const RunPlan plan = plan_run(job, group, config, options);
  return Run(job, plan, options).train();
}

}  // namespace unisono::session
