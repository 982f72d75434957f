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
#include "unisono/session/abilities.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/rank_checks.hpp"
#include "unisono/session/run_state.hpp"
#include "unisono/session/selection.hpp"
#include "unisono/session/thread_choice.hpp"
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
  /// \param given_rank this rank before the placement reordered them: that of which the config speaks
  Run(Job& job, comm::Communicator& group, int given_rank, const settings::Config& config, const RunOptions& options);
  RunResult train();

 private:
  ThreadChoice settle_threads();
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
  comm::Communicator& group_;
  const int given_rank_;
  const RunOptions& options_;
  settings::Config config_;  ///< with what the data decide
  Log log_;
  RunOutputs outputs_;
  std::shared_ptr<SharedDataset> shared_data_;
  data::Dataset& data_;
  ThreadChoice threads_;
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

Run::Run(Job& job, comm::Communicator& group, int given_rank, const settings::Config& config, const RunOptions& options)
    : job_(job),
      group_(group),
      given_rank_(given_rank),
      options_(options),
      config_(config),
      log_(job.log(), group.rank()),
      outputs_(group, config, options),
      shared_data_(job.open_set(group, config.data, seed_of(config), options.fold)),
      data_(**shared_data_),
      threads_(settle_threads()),
      parts_({group, job.place(), log_, job.clock()}, config_, inputs_of(data_.info()), &data_),
      training_(parts_, config_),
      workers_(parts_, training_, config_, inputs_of(data_.info()), data_),
      objective_(make_objective(parts_, config_, data_)),
      source_(make_source(parts_, config_, data_)) {
  require_same_instructions(group);
  require_slow_rank(config_, parts_);
  require_examples(config_, parts_, data_.info().train);
  criteria_ = criteria_of(config_, *parts_.model, data_.info());
  require_same_data(group, data_.info());
  header_ = first_header(config_, parts_, data_, training_.average != nullptr);
  header_.threads_chosen = threads_.threads > 0;
  find_other_run();
  begin();
  outputs_.open({config_, parts_, events_header_now(), job_.clock()}, header_, log_);
  require_shared_folder();
}

/// Fills in what the config leaves to the data and, in a new run, to a trial of the threads.
ThreadChoice Run::settle_threads() {
  settle(config_, data_.info());
  if (options_.existing == records::Existing::resume) return {};
  ThreadChoice choice = choose_threads({group_, job_.place(), log_}, config_, data_);
  if (choice.threads > 0) config_.strategy.threads = choice.threads;
  return choice;
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
              {config_, parts_, training_, criteria_, header_, source_->steps_per_epoch(), options_.takes_over}, log_);
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
  const bool is_summarised = outputs_.is_summarised(header_.step, at_end, ends_otherwise_, config_);
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
  if (!threads_.found.empty() || !header_.threads_chosen) return threads_.found;
  return fmt::format("{} a rank, as chosen when the run began", count_of(parts_.placement.threads, "thread"));
}

RunResult Run::train() {
  if (is_complete()) return already_complete();
  say_start({config_, parts_, training_, data_.info(), *source_, threads_text()}, log_);
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
  return {.config = config_,
          .parts = parts_,
          .training = training_,
          .data = data_,
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
  parallel::Fault fault(config_.fault, seed_of(config_), given_rank_);
  strategies::TrainContext context{step_terms(parts_, training_, config_, *source_, header_.step, job_.clock()),
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
  Summary summary = summarise({parts_, training_, header_, observer, source_->steps_per_epoch(), seconds});
  summary.in_folder = outputs_.in_folder();
  if (compared_ && summary.is_complete()) summary.comparison = compare(parts_, *compared_, log_);
  if (repetition_) require_repeated(summary, config_.run_folder());
  outputs_.write(summary, config_);
  if (options_.parameters != nullptr) *options_.parameters = parts_.whole_parameters();
  if (options_.validation_outputs != nullptr && summary.is_complete()) {
    *options_.validation_outputs = validation_outputs(parts_, training_, data_, config_);
  }
  return result_of(summary, observer, name());
}

}  // namespace

RunResult run(Job& job, comm::Communicator& group, const settings::Config& config, const RunOptions& options) {
  require_same_experiment(group, config);
  const bool resumes = options.existing == records::Existing::resume;
  const PlacedConfig placed = placed_config(
      group, job.place(), resumes ? with_sizes_of_run(group, config) : config,
      [&config] { return data::inspect_dataset(config.data); }, job.log());
  const auto ordered = reordered(group, placed.order);
  return Run(job, ordered ? *ordered : group, group.rank(), placed.config, options).train();
}

}  // namespace unisono::session
