#include "unisono/session/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint/shared_file.hpp"
#include "run/comparison.hpp"
#include "run/initialise_from.hpp"
#include "run/kept_models.hpp"
#include "run/replay.hpp"
#include "run/resume.hpp"
#include "run/run_header.hpp"
#include "run/run_outputs.hpp"
#include "run/schedule_span.hpp"
#include "run/start_messages.hpp"
#include "run/summarise.hpp"
#include "run/training_observer.hpp"
#include "run/validation_outputs.hpp"
#include "run/whole_set_source.hpp"
#include "unisono/base/text.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/rank_checks.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/session/run_state.hpp"
#include "unisono/session/selection.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::session {
namespace {

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
  void require_shared_folder();
  bool is_complete() const;
  /// How the number of threads was chosen, if the config left it open; else empty.
  std::string threads_text() const;
  RunResult already_complete();
  void make_steps(TrainingObserver& observer);
  ObserverContext observer_context();
  void restore_best(const TrainingObserver& observer);
  RunResult end(TrainingObserver& observer, double seconds);
  std::string name() const { return outputs_.in_folder() ? config_.run_folder() : config_.name; }
  std::int64_t total_steps() const { return config_.train.epochs * source_->steps_per_epoch(); }

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
  bool ends_otherwise_ = false;  ///< whether this resumed run has other tolerances than before
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
      parts_({group_, job.place(), log_, job.clock()}, config_, inputs_of(data_.info()), &data_),
      training_(parts_, config_),
      workers_(parts_, training_, config_, data_),
      objective_(make_objective(parts_, config_, data_)),
      source_(make_source(parts_, config_, data_)) {
  require_same_instructions(group_);
  require_slow_rank(config_, parts_);
  require_examples(config_, parts_, data_.info().train);
  criteria_ = criteria_of(config_, *parts_.model, data_.info());
  require_same_data(group_, data_.info());
  header_ = first_header(plan, parts_, training_.average != nullptr);
  find_other_run();
  begin();
  outputs_.open({parts_, events_header_now(), job_.clock()}, header_, log_);
  require_shared_folder();
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
  checkpoints_.emplace(group_, records::checkpoints_of(config_.run_folder()), config_.checkpoint);
  kept_ = keep_in(*checkpoints_, parts_, training_);
  if (!resumes) return;
  if (const auto stored = checkpoints_->newest(log_)) return resume(*stored);
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
  resume_from(checkpoint,
              {plan_, parts_, training_, criteria_, header_, source_->steps_per_epoch(), options_.takes_over}, log_);
  source_->seek(header_.cursor);
  for (strategies::Worker& worker : workers_.workers()) worker.source.seek(header_.cursor);
}

records::EventFileHeader Run::events_header_now() const {
  return events_header(header_, config_, parts_, source_->steps_per_epoch());
}

/// Checks at the start, and not only at the first checkpoint, that all ranks see the folder if each writes a part.
void Run::require_shared_folder() {
  const StoredVectors state = state_of(parts_, training_);
  if (!outputs_.in_folder() || std::ranges::none_of(state, &StoredVector::is_divided)) return;
  group_.barrier();  // rank 0 has now written config.toml
  if (all_see(group_, config_.run_folder() + "/config.toml")) return;
  throw OutputError(fmt::format("{}: {}", config_.run_folder(), kMustBeShared));
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
  say_start({plan_, parts_, training_, *source_, threads_text()}, log_);
  TrainingObserver observer(observer_context());
  const Stopwatch watch(job_.clock());
  if (header_.step < total_steps()) make_steps(observer);
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
          .steps_per_epoch = source_->steps_per_epoch(),
          .kept = *kept_,
          .criteria = criteria_,
          .records = outputs_.records(),
          .clock = job_.clock(),
          .header = header_};
}

void Run::make_steps(TrainingObserver& observer) {
  const optim::Schedule schedule = schedule_of(config_, source_->steps_per_epoch());
  parts_.share_parameters();
  parallel::Fault fault(config_.fault, seed_of(config_), plan_.given_rank);
  strategies::TrainContext context{step_terms(parts_, training_, config_, {*source_, header_.step, job_.clock()}),
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
  parts_.strategy->train(context);
}

/// After early stopping: restores the best model, and makes its checkpoint the newest. Collective.
void Run::restore_best(const TrainingObserver& observer) {
  const BestEvaluation& best = observer.best();
  kept_->restore_best(best.step);
  log_.info(fmt::format("stopped early: the best weights are those of epoch {}, with a {} of {:.4g}",
                        best.step / source_->steps_per_epoch(), best.criterion, best.value));
}

/// Makes comparison, summary and result when the model is final. Collective.
RunResult Run::end(TrainingObserver& observer, double seconds) {
  Summary summary = summarise({plan_, parts_, training_, header_, observer, source_->steps_per_epoch(), seconds});
  summary.in_folder = outputs_.in_folder();
  if (compared_ && summary.is_complete()) summary.comparison = compare(parts_, *compared_, log_);
  if (repetition_) require_repeated(summary, config_.run_folder());
  outputs_.write(summary);
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
