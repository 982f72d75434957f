#include "averaging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "allreduce.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"

// Periodic parameter averaging (local SGD), post-local where `allreduce_epochs` come first.
//   Every rank steps on its own part of each batch, with the mean gradient over that part. After each `period` steps,
//   at the end of an epoch and at the end of the run
//       θ ← Σ_r n_r θ_r / Σ_r n_r        n_r: examples that rank r has seen since the last average
//   (row by row for a model that has rows, see parameter_average.cpp). The running statistics are averaged likewise.
//   The optimizer's state is averaged in the same way, kept, or reset to zero. A rank without examples in a step leaves
//   its parameters as they are. Period 1 with plain SGD equals allreduce, however uneven the parts, because both are
//   linear in g: Σ_r n_r (θ − rate · g_r) / Σ_r n_r = θ − rate · g. McDonald, Hall, Mann, NAACL 2010; Stich, ICLR 2019;
//   post-local: Lin et al., ICLR 2020.
//   Options, in averaging/averages.cpp: an outer optimizer that steps along θ₀ − θ, periods that follow the loss,
//   averages within nodes in between, averages that are applied a period later, and compressed Δ. Rows are averaged one
//   by one (parameter_average.cpp).
// Cost per period: one barrier and one allreduce of 4N bytes; with k averaged state vectors 1 + k allreduces of 4N
// bytes each. No message in the steps between.
namespace unisono::strategies {
namespace {

class Averaging final : public Strategy {
 public:
  explicit Averaging(const AveragingSettings& settings) : settings_(settings) {}
  void require(const models::Model& model, int) const override { settings_.require_possible(model); }
  void train(TrainContext& run) override;
  bool optimizer_state_is_local() const override { return settings_.optimizer_state == StateAtAverage::keep; }
  std::vector<parallel::StateVector> state_vectors() const override;
  std::string obstacle_to_gpus() const override {
    return settings_.compression.is_on() ? "strategy.compression works only on CPUs" : "";
  }
  std::vector<double> scalars() const override { return adaptive_.scalars(); }
  void restore(const std::vector<double>& scalars) override { adaptive_.restore(scalars); }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int) const override {
    return ParameterAverage::bytes(model, settings_.merge, ranks) +
           (settings_.overlap ? DelayedAverage::bytes(model) : 0);
  }
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int states,
                                 const data::DatasetInfo&) const override;

 private:
  AveragingSettings settings_;
  AdaptivePeriod::State adaptive_;
};

/// Those of the outer step, and the residual behind them.
std::vector<parallel::StateVector> Averaging::state_vectors() const {
  std::vector<parallel::StateVector> vectors = OuterStep::state_vectors(settings_.outer);
  if (settings_.compression.is_on()) {
    vectors.push_back({.name = "residual", .scope = parallel::StateScope::replica, .adds_up = true});
  }
  return vectors;
}

std::optional<Traffic> Averaging::traffic(const models::Model& model, int, int states, const data::DatasetInfo&) const {
  const auto period = static_cast<double>(settings_.longest_period());
  Traffic traffic{.touched_floats = 3.0 * static_cast<double>(model.layout().size()) / period};
  if (settings_.compression.is_on()) {
    traffic = traffic_of_sum(model.layout(), settings_.compression);
    traffic.touched_floats /= period;
    traffic.waits.clear();
  } else {
    traffic.exchanges = {{.floats = model.layout().size()}};
  }
  if (settings_.optimizer_state == StateAtAverage::average && states > 0) {
    traffic.exchanges.push_back({.floats = states * model.layout().size()});
  }
  for (Exchange& exchange : traffic.exchanges) {
    exchange.every_steps = period;
    exchange.during = settings_.overlap ? During::period : During::nothing;
  }
  traffic.makes_own_steps = true;
  return traffic;
}

/// The averages of a run.
class Averages {
 public:
  Averages(TrainContext& run, const AveragingSettings& settings, AdaptivePeriod::State& adaptive);

  ParameterAverage& parameters() { return parameters_; }
  void begin_step(std::int64_t step) {
    if (rows_) rows_->begin_step(step);
  }
  /// Called after each step. \return whether all ranks hold the same model now
  bool after_step(const data::Batch& batch, std::int64_t made);
  /// Called before the first step, and after each that all ranks have averaged.
  void begin_period(std::int64_t made) {
    if (adaptive_) adaptive_->begin(made);
  }

 private:
  bool period_ends(std::int64_t made) const { return adaptive_ ? adaptive_->ends(made) : made % settings_.period == 0; }
  void count(const data::Batch& batch);
  double weight_of_all() { return nodes_ ? nodes_->weight_of_all() : static_cast<double>(seen_); }
  void average_all(std::int64_t made);
  void average_in_node();
  void start_average();
  void treat_optimizer_state(comm::Communicator& group, double weight);

  TrainContext& run_;
  const AveragingSettings& settings_;
  std::optional<parallel::CompressedChanges> rows_;  ///< of a model that is updated in place
  ParameterAverage parameters_;
  std::optional<OuterStep> outer_;
  std::optional<CompressedAverage> compressed_;
  std::optional<NodeAverages> nodes_;
  std::optional<DelayedAverage> delayed_;
  std::optional<AdaptivePeriod> adaptive_;
  Index seen_ = 0, seen_by_all_ = 0;  ///< examples since the last average of all ranks: of this rank, of all
};

std::optional<parallel::CompressedChanges> compressed_rows(TrainContext& run, const AveragingSettings& settings) {
  if (!settings.compression.is_on() || run.model.in_place() == nullptr) return std::nullopt;
  return std::optional<parallel::CompressedChanges>(std::in_place, run, settings.compression);
}

Averages::Averages(TrainContext& run, const AveragingSettings& settings, AdaptivePeriod::State& adaptive)
    : run_(run),
      settings_(settings),
      rows_(compressed_rows(run, settings)),
      parameters_(run, settings.merge, rows_ ? &*rows_ : nullptr) {
  if (settings.outer.is_on()) outer_.emplace(run, settings.outer);
  if (settings.compression.is_on() && !rows_) {
    compressed_.emplace(run, settings.compression, run.vectors.back().values.view(), run.vectors[0].values.view());
  }
  if (settings.node_period > 0) nodes_.emplace(run.communicator);
  if (settings.overlap) delayed_.emplace(run);
  if (settings.is_adaptive()) adaptive_.emplace(run, settings.longest_period(), adaptive);
}

bool Averages::after_step(const data::Batch& batch, std::int64_t made) {
  count(batch);
  const bool must_agree = batch.last_of_epoch || made == run_.total_steps;
  if (!must_agree && !period_ends(made)) {
    if (nodes_ && made % settings_.node_period == 0) average_in_node();
    if (delayed_) delayed_->advance();
    parameters_.merge_after_step();
    return false;
  }
  if (delayed_) delayed_->finish(outer_ ? &*outer_ : nullptr);
  if (delayed_ && !must_agree) {
    start_average();
  } else {
    average_all(made);
  }
  seen_ = seen_by_all_ = 0;
  return !delayed_ || must_agree;
}

void Averages::count(const data::Batch& batch) {
  seen_ += batch.rank_step_size;
  seen_by_all_ += batch.global_size;
  if (nodes_) nodes_->count(batch.rank_step_size);
}

void Averages::average_all(std::int64_t made) {
  parallel::meet(run_);
  const double weight = weight_of_all();
  parallel::average_local_statistics(run_, run_.communicator, weight);
  if (compressed_) {
    compressed_->average(weight, made);
  } else {
    parameters_.average(weight);
  }
  if (outer_) outer_->step(run_.state.parameters);
  treat_optimizer_state(run_.communicator, weight);
  if (adaptive_) adaptive_->choose();
}

/// As average_all, but the result is applied when the next period ends. The ranks of a node begin it with equal
/// parameters, so that averages of the node, which come in between, leave its correction as it is.
void Averages::start_average() {
  if (nodes_) average_in_node();
  delayed_->start(weight_of_all() / static_cast<double>(seen_by_all_));
}

void Averages::average_in_node() {
  comm::Communicator& node = nodes_->node();
  const double weight = nodes_->weight_in_node();
  {
    const parallel::Phase phase(run_, run_.seconds.straggler_wait);
    node.barrier();
  }
  parallel::average_local_statistics(run_, node, weight);
  {
    const parallel::Phase phase(run_, run_.seconds.exposed_communication);
    const std::size_t bytes = average_parameters(run_, node, weight);
    run_.counters.of<NodeAverageCounters>().bytes += node.size() > 1 ? static_cast<std::int64_t>(bytes) : 0;
  }
  treat_optimizer_state(node, weight);
}

void Averages::treat_optimizer_state(comm::Communicator& group, double weight) {
  if (settings_.optimizer_state == StateAtAverage::average) parallel::average_optimizer_state(run_, group, weight);
  if (settings_.optimizer_state == StateAtAverage::reset) run_.optimizer->reset();
}

void Averaging::train(TrainContext& run) {
  const std::int64_t together = std::min(run.total_steps, settings_.allreduce_epochs * run.source.steps_per_epoch());
  bool go_on = run.first_step >= together || train_with_allreduce(run, together);
  const auto scratch = run.model.in_place() != nullptr ? run.model.in_place()->make_scratch() : nullptr;
  std::optional<parallel::OwnSteps> own_steps;
  if (!scratch) own_steps.emplace(run);

  const std::int64_t first = std::max(run.first_step, together);
  Averages averages(run, settings_, adaptive_);
  averages.begin_period(first);
  for (std::int64_t step = first; go_on && step < run.total_steps; ++step) {
    const double rate = run.schedule.rate(step);
    averages.begin_step(step);
    const data::Batch batch =
        own_steps ? own_steps->make(parallel::MeanOver::own_examples, rate, run.observer.reads_gradient(step))
                  : step_in_place(run, *scratch, rate, &averages.parameters());
    const bool one_model = averages.after_step(batch, step + 1);
    StepRecord record = make_record(batch, step + 1, rate, /*consistent=*/one_model);
    record.gradient_is_whole = own_steps && own_steps->gradient_is_whole();
    go_on = run.observer.step(record) || !one_model;
    if (one_model) averages.begin_period(step + 1);
  }
}

void describe_averaging(StrategySettings& settings, ConfigVisitor& visitor) {
  settings.own.of<AveragingSettings>().describe(visitor);
}

void check_averaging(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) {
  const std::int64_t together = settings.own.of<AveragingSettings>().allreduce_epochs;
  visitor.require("strategy", together == 0 || !terms.length.in_steps,
                  "strategy.allreduce_epochs counts epochs, and train.steps the steps of the run: set train.epochs "
                  "instead of train.steps");
  visitor.require("strategy", terms.length.in_steps || together <= terms.length.count,
                  "strategy.allreduce_epochs is larger than train.epochs, so nothing would ever be averaged; lower it, "
                  "or train for more epochs");
}

}  // namespace

StrategyKind averaging_strategy() {
  return {.name = "averaging",
          .meaning = "local SGD: ranks make steps on their own and average their parameters at intervals",
          .describe = describe_averaging,
          .check = check_averaging,
          .make = construct<Averaging, AveragingSettings>,
          .traits = {.has_one_model = true, .trains_replicas = true, .simulated = true},
          .relief = relief_of_averages,
          .proposals = {{"averaging, period 16", {}, "16 steps of each rank by itself between averages"},
                        {"averaging, period 16, overlapped",
                         {"overlap=true", "optimizer_state=\"keep\""},
                         "averages of steps by themselves, applied a period later"},
                        {"averaging, period 100, outer steps (DiLoCo)",
                         {"period=100", "optimizer_state=\"keep\"", "outer.kind=\"nesterov\""},
                         "100 steps of each rank by itself, then an outer step with momentum",
                         true}}};
}

// The keys of strategy.kind = "averaging", and which of them exclude each other.

namespace {

constexpr Named<StateAtAverage> kStatesAtAverage[] = {
    {StateAtAverage::average, "average", "it is averaged like the parameters"},
    {StateAtAverage::keep, "keep", "every rank keeps its own state"},
    {StateAtAverage::reset, "reset", "it is set to zero, as at the start of a run"}};

void describe_periods(AveragingSettings& settings, ConfigVisitor& visitor) {
  visitor.number_or({.name = "period",
                     .meaning = "steps between two averages; parameters are also averaged at the end of every epoch",
                     .unit = "steps",
                     .range = at_least(1)},
                    settings.period, {"adaptive", "shorter as the training loss falls (AdaComm)"});
  visitor.field({.name = "first_period",
                 .meaning = "of period = \"adaptive\": the first period, which is the longest; 0: 16",
                 .unit = "steps",
                 .range = at_least(0)},
                settings.first_period);
  visitor.field(
      {.name = "node_period",
       .meaning = "steps between two averages within a node; the period must be a multiple of it. 0: there are "
                  "only averages of all ranks",
       .unit = "steps",
       .range = at_least(0)},
      settings.node_period);
  visitor.field(
      {.name = "overlap",
       .meaning = "apply each average a period later, and compute it meanwhile; ranks hold the same model only "
                  "at the ends of epochs"},
      settings.overlap);
}

void require_fitting_periods(const AveragingSettings& settings, ConfigVisitor& visitor) {
  const bool adaptive = settings.is_adaptive();
  visitor.require(
      "first_period", adaptive || settings.first_period == 0,
      "first_period is the first of adaptive periods, but period is a number: set period = \"adaptive\", or "
      "remove first_period");
  visitor.require("node_period", !adaptive || settings.node_period == 0,
                  "node_period must divide the period, but period = \"adaptive\" changes: set period to a number, or "
                  "remove node_period");
  visitor.require(
      "node_period", adaptive || settings.node_period == 0 || settings.period % settings.node_period == 0,
      fmt::format("node_period is {}, but must divide the period, {}: an average of all ranks is one of each "
                  "node, too",
                  settings.node_period, settings.period));
  visitor.require(
      "overlap", !settings.overlap || !adaptive,
      "overlap applies an average a period later, but period = \"adaptive\" chooses the period by losses that "
      "are summed when all ranks meet: set period to a number, or overlap = false");
  visitor.require("overlap", !settings.overlap || settings.optimizer_state == StateAtAverage::keep,
                  "overlap averages parameters while steps go on, which change the optimizer's state: set "
                  "optimizer_state = \"keep\", or overlap = false");
}

}  // namespace

void AveragingSettings::describe(ConfigVisitor& visitor) {
  describe_periods(*this, visitor);
  merge.describe(visitor);
  visitor.choice(
      {.name = "optimizer_state", .meaning = "what happens to the optimizer's state when parameters are averaged"},
      optimizer_state, kStatesAtAverage);
  visitor.field({.name = "allreduce_epochs",
                 .meaning = "epochs of allreduce at the start of the run, before local steps begin (post-local SGD)",
                 .unit = "epochs",
                 .range = at_least(0).at_most(1e9)},
                allreduce_epochs);
  visitor.section({.name = "outer", .meaning = "what is done with an average of all ranks (DiLoCo)"}, outer);
  visitor.section({.name = "compression",
                   .meaning = "what ranks send instead of whole changes, of outer steps and of rows that are merged by "
                              "adding changes"},
                  [this](ConfigVisitor& inner) { compression.describe_for_changes(inner); });
  visitor.require("overlap", !overlap || !compression.is_on(),
                  "overlap sends averages while the next steps are made, and compressed changes are not sent so: set "
                  "overlap = false, or compression.kind = \"none\"");
  require_fitting_periods(*this, visitor);
}

void AveragingSettings::require_compressible(const models::Model& model) const {
  if (compression.is_on() && !outer.is_on()) {
    throw ConfigError(
        "strategy.compression.kind: averages of whole parameters are not compressed, only changes since the last "
        "average: set strategy.outer.kind to \"sgd\" (with rate 1 it is the plain average) or \"nesterov\", or "
        "compression.kind = \"none\"");
  }
  parallel::require_fitting_blocks(compression, model.layout());
}

void AveragingSettings::require_possible(const models::Model& model) const {
  if (model.in_place() == nullptr) {
    require_compressible(model);
    return;
  }
  const auto refuse = [](bool wrong, std::string_view key, std::string_view remedy, std::string_view why) {
    if (wrong)
      throw ConfigError(
          fmt::format("strategy.{}: this model is updated in place, example by example, {}; {}", key, why, remedy));
  };
  constexpr std::string_view kRows = "and its rows are averaged one by one, each over the ranks that changed it";
  refuse(allreduce_epochs > 0, "allreduce_epochs", "set it to 0", "so there is no gradient to sum");
  refuse(outer.is_on(), "outer.kind", "set it to \"none\"", kRows);
  refuse(node_period > 0, "node_period", "set it to 0", kRows);
  refuse(overlap, "overlap", "set it to false", kRows);
  refuse(!compression.exact.empty(), "compression.exact", "remove it", "and its rows are compressed alike");
  refuse(compression.kind == parallel::Compression::top_k, "compression.kind", "choose another kind",
         "and rare rows would wait for long until their changes are among the largest");
  refuse(compression.is_on() && !sums_changes(*model.in_place(), merge.merge), "compression.kind",
         "set it to \"none\", or strategy.merge = \"sum\"", "and means of rows are sent as they are");
}

}  // namespace unisono::strategies
