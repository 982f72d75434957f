// Training without a centre, and without waiting for each other (AD-PSGD): each rank trains its own θ_r at its own pace
// and averages it with that of one other rank at a time.
//     every rank r repeats:
//       θ̂ ← θ_r
//       g ← (P/n) Σ_{i ∈ part of r} ∇ℓ_i(θ̂)       meanwhile θ_r is averaged with others:
//                                                  θ_r, θ_s ← (θ_r + θ_s) / 2, both at once
//       θ_r ← θ_r − rate · direction(g)
//   In the first epoch, an even rank begins one such average in each `period` of its steps, with an odd rank drawn at
//   random; odd ranks answer, on a thread of their own, also while they compute. In the second epoch odd ranks begin,
//   and so on by turns: who begins an average waits for it before its own step, and makes fewer steps where these are
//   short. An average keeps the sum of all θ_r, so that their mean follows the mean gradient. A rank's optimizer state
//   and running statistics are its own. One rank makes the serial run. Lian, Zhang, Zhang and Liu, "Asynchronous
//   decentralized parallel stochastic gradient descent", ICML 2018, where the same ranks begin always.
//   Nobody waits in a circle: the graph is bipartite, ranks that begin wait for those that answer, and a rank that
//   answers waits only for the messages of the rank that called it, which that one sends from a thread that does
//   nothing else. Steps are dealt by one more thread of rank 0, which answers every question at once. The run is cut
//   into segments (up to a report, an evaluation or a checkpoint). A segment of L steps has P · L steps of ranks: rank
//   0 deals them, one by one, to whoever asks first. At its end the ranks meet, and their mean, the consensus, is
//   formed; that changes no θ_r. Each rank's order of reading, averaging and stepping is all that time decides:
//   recorded, it makes a run repeatable bit for bit.
// Cost of an average: 4N bytes each way between two ranks, while they compute. A step: two messages of a byte with rank
// 0. A segment: a message from each rank that begins to each of its partners, and an allreduce of 4N bytes. Memory: θ_r
// and θ̂ beside the consensus.
#include "gossip_async.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr Named<PairTopology> kPairTopologies[] = {
    {PairTopology::complete, "complete", "an even rank with any odd one"},
    {PairTopology::ring, "ring",
     "with the ranks before and after it; on an odd number of ranks not from the last one to the first"}};

}  // namespace

void GossipAsyncCounters::describe(CounterVisitor& visitor) {
  consensus.describe(visitor);
  const CounterGroup group(visitor, "gossip");
  visitor.count({.name = "sent_bytes", .unit = "bytes", .shown = Shown::everywhere}, sent_bytes);
  consensus.describe_in_summary(visitor);
  visitor.count({.name = "exchanges", .shown = Shown::everywhere}, exchanges);
  visitor.histogram({.name = "staleness", .unit = "exchanges", .shown = Shown::everywhere}, staleness);
  visitor.figure({.name = "rank_steps"}, rank_steps);
}

std::string GossipAsyncCounters::text(const CounterTerms& terms) const {
  if (rank_steps.empty()) return "";  // no rank has made any
  const auto [least, most] = std::ranges::minmax(rank_steps);
  return gossip_text(terms, sent_bytes, consensus,
                     fmt::format("{}, {:.2g} during a step on average, at most {}; ranks made {} to {}",
                                 count_of(exchanges, "exchange"), staleness.mean(), staleness.largest(), grouped(least),
                                 count_of(most, "step")));
}

namespace {

class GossipAsync final : public Strategy {
 public:
  explicit GossipAsync(const StrategySettings& settings)
      : replayed_workers_(settings.replayed_workers), own_(settings.own.of<GossipAsyncSettings>()) {}

  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  int event_lists(int ranks) const override { return ranks; }
  bool optimizer_state_is_local() const override { return true; }
  std::vector<parallel::StateVector> state_vectors() const override {
    return {
        {.name = "replica", .scope = parallel::StateScope::replica},
        {.name = "replica_statistics", .scope = parallel::StateScope::replica, .of = parallel::StateOf::statistics}};
  }
  std::string need_of_examples(const models::Model&) const override { return kStepsOfNothing; }
  std::int64_t extra_bytes(const models::Model& model, int, int) const override {
    const Index n = model.layout().size();
    return static_cast<std::int64_t>(sizeof(float)) * n + PairExchange::extra_bytes(n);
  }
  /// Of epochs in which more ranks begin averages than answer, where even and odd ones are not equally many.
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int, const data::DatasetInfo&) const override {
    const Index n = model.layout().size();
    const auto period = static_cast<double>(own_.period);
    const int answer = std::max(ranks / 2, 1), begin = std::max(ranks - answer, 1);
    const Exchange pairs{.pattern = Pattern::neighbours,
                         .floats = n,
                         .every_steps = period,
                         .during = During::gradient,
                         .begin = begin,
                         .answer = answer};
    // A rank waits for the answers of others, or for their questions; rank 0 deals the steps.
    const Wait exchanges{.per_step = 1 / period};
    const Wait deals{.threads = 1.0 / ranks, .per_step = static_cast<double>(ranks)};
    const double averages = 2.0 * begin / ranks / period;  // of a rank, in a step of all
    return Traffic{.exchanges = {pairs},
                   .touched_floats = static_cast<double>(n) * (1 + 3 * averages),
                   .waits = {exchanges, deals}};
  }

 private:
  std::int64_t replayed_workers_;  ///< 0: this is no replay
  GossipAsyncSettings own_;
};

void GossipAsync::require(const models::Model& model, int ranks) const {
  Strategy::require(model, ranks);
  if (replayed_workers_ == 0 || replayed_workers_ == ranks) return;
  throw ConfigError(fmt::format(
      "strategy.kind = \"gossip_async\": the run was recorded on {} ranks, each with parameters of its own, and cannot "
      "be replayed on {}: start as many as were recorded",
      replayed_workers_, ranks));
}

/// This rank's part of the training.
class AsyncRank {
 public:
  AsyncRank(TrainContext& run, const GossipAsyncSettings& settings);

  void train(const Segment& segment);
  void form_consensus() { strategies::form_consensus(run_, {theta(), own_.state.statistics}, counters_.consensus); }
  void record(const Segment& segment);
  StepRecord record_of(const Segment& segment);

 private:
  void make_steps(const Segment& segment);
  bool is_given_one(std::int64_t made);
  void step(double rate);
  void read();
  void adapt(const data::Batch& batch, double rate);
  MutableView theta() { return run_.vectors[kReplica].values.view(); }

  TrainContext& run_;
  const GossipAsyncSettings& settings_;
  GossipAsyncCounters& counters_;
  AsyncAverages averages_;
  TrainContext own_;  ///< with θ̂ and this rank's running statistics in place of the consensus
  Buffer read_;       ///< θ̂
  std::int64_t averages_when_read_ = 0;
  std::int64_t steps_ = 0;               ///< of this rank, since the run began
  Index examples_ = 0, all_before_ = 0;  ///< of this rank; of all ranks, up to the last record
};

AsyncRank::AsyncRank(TrainContext& run, const GossipAsyncSettings& settings)
    : run_(run),
      settings_(settings),
      counters_(run.counters.of<GossipAsyncCounters>()),
      averages_(run, settings.topology),
      own_(own_context(run)),
      read_(std::ssize(run.state.parameters), run.backend.memory()) {
  own_.state.parameters = read_.view();
  counters_ = {};
  // In a resumed run each rank continues after its own number of steps or, on another number of ranks, after the run's.
  steps_ = std::ssize(run.worker_steps) == averages_.ranks()
               ? run.worker_steps[static_cast<std::size_t>(run.communicator.rank())]
               : run.first_step;
  continue_after(run, steps_);
}

// --- Steps -----------------------------------------------------------------------------------------------------------

void AsyncRank::make_steps(const Segment& segment) {
  averages_.ask();
  for (std::int64_t made = 0; is_given_one(made); ++made) step(run_.schedule.rate(segment.step_at(made)));
}

bool AsyncRank::is_given_one(std::int64_t made) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  return averages_.is_given_one(made);
}

void AsyncRank::step(double rate) {
  read();
  if (averages_.begins() && (steps_ + 1) % settings_.period == 0) averages_.start(steps_);
  const data::Batch batch = own_.replica.gradient_of_step(own_, parallel::MeanOver::own_examples, nullptr);
  averages_.ask();  // the answer comes during the rest of this step
  adapt(batch, rate);
  ++steps_;
  examples_ += batch.rank_step_size;
}

/// θ̂ ← θ_r
void AsyncRank::read() {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  const auto turn = averages_.turn_to_read();
  run_.backend.memory().copy(theta(), read_.view());
  averages_when_read_ = averages_.count();
}

/// θ_r ← θ_r − rate · direction(P n_r/n · mean gradient over the n_r examples of this rank)
void AsyncRank::adapt(const data::Batch& batch, double rate) {
  const auto turn = [this] {
    const parallel::Phase phase(run_, run_.seconds.exposed_communication);
    return averages_.turn_to_step();
  }();
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  const double share = static_cast<double>(batch.rank_step_size) / static_cast<double>(batch.global_size);
  const auto scale = static_cast<float>(averages_.ranks() * share);
  run_.runtime.update(std::ssize(theta()), [&] { run_.optimizer->step(theta(), run_.gradient, rate, scale); });
  run_.backend.submit();
  counters_.staleness.add(averages_.count() - averages_when_read_);
}

// --- Segments --------------------------------------------------------------------------------------------------------

void AsyncRank::train(const Segment& segment) {
  averages_.begin(segment);
  std::exception_ptr failure;
  try {
    make_steps(segment);
  } catch (...) {
    failure = std::current_exception();
  }
  averages_.end(failure);
  counters_.sent_bytes = averages_.sent_bytes();
  counters_.exchanges = averages_.begun();
}

void AsyncRank::record(const Segment& segment) {
  strategies::record(run_, averages_.group(), segment, averages_.events());
}

StepRecord AsyncRank::record_of(const Segment& segment) {
  StepRecord record = strategies::record_of(run_, averages_.group(), segment, steps_, examples_, all_before_);
  counters_.rank_steps = record.worker_steps;
  return record;
}

void GossipAsync::train(TrainContext& run) {
  AsyncRank rank(run, own_);
  bool go_on = true;
  for (std::int64_t made = run.first_step; go_on && made < run.total_steps;) {
    const Segment segment = next_segment(run, made);
    rank.train(segment);
    rank.form_consensus();
    if (run.recorder != nullptr) rank.record(segment);
    made = segment.last;
    go_on = run.observer.step(rank.record_of(segment));
  }
}

void describe_gossip_async(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<GossipAsyncSettings>();
  visitor.choice({.name = "topology", .meaning = "with whom a rank averages its parameters"}, own.topology,
                 kPairTopologies);
  visitor.field({.name = "period",
                 .meaning = "own steps of a rank from one average that it begins to the next; even ranks begin them in "
                            "the first epoch, odd ones in the second, and so on by turns",
                 .unit = "steps",
                 .range = at_least(1)},
                own.period);
  visitor.field({.name = "record",
                 .meaning = "record in which order each rank made its steps and averages, in events.bin of the run "
                            "folder, so that `unisono replay` can repeat the run bit for bit"},
                settings.record);
}

}  // namespace

StrategyKind gossip_async_strategy() {
  return {.name = "gossip_async",
          .meaning =
              "training without a centre at each rank's own pace (AD-PSGD): each rank trains its own parameters, and "
              "averages them with one other rank at a time; the mean of all ranks is the model",
          .describe = describe_gossip_async,
          .make = construct<GossipAsync>,
          .traits = {.needs_gradient = true, .at_own_pace = true, .only_on_cpus = true, .simulated = true},
          .waiting = "ranks waited for averages with others",
          .relief = [](const StrategySettings&, bool) -> std::string {
            return "a longer period or a larger train.batch_size waits less";
          },
          .proposals = {{"gossip_async", {}, "ranks differ, and average with a drawn one at their own pace"}}};
}

}  // namespace unisono::strategies
