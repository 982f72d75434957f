// Training without a centre: each rank trains its own θ_r and mixes it with its neighbours' (D-PSGD).
//     g_r = (P/n) Σ_{i ∈ part of r} ∇ℓ_i(θ_r)
//   combine_then_adapt, as published:   θ_r ← Σ_s W_rs θ_s − rate · direction(g_r)
//     The θ_s travel while g_r is computed, since both need only the θ before the step.
//   adapt_then_combine:                 θ_r ← Σ_s W_rs (θ_s − rate · direction(g_s))
//   W is doubly stochastic (gossip/consensus.cpp), another one in each exchange of the exponential graph. Between
//   exchanges ranks step alone. The optimizer's vectors are kept, or mixed like θ. The factor P/n makes the uniform
//   mean of the ranks follow the mean gradient over the global batch, however uneven the parts; a rank without examples
//   steps with g_r = 0. The model is the consensus, (1/P) Σ_r θ_r: it is formed where somebody wants to see it, and
//   changes no θ_r. Running statistics are the ranks' own; those of the consensus are their mean. On the complete
//   graph, plain SGD that is adapted first is `averaging` with period 1. One rank makes the serial run. Lian et al.,
//   "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017 (algorithm 1).
// Cost per exchange and rank with d neighbours: d messages of 4N bytes each way, as much again for each vector of the
// optimizer that is mixed. A consensus: one allreduce of 4N bytes. Memory: a second θ; a third where combined first.
#include "gossip.hpp"

#include <fmt/format.h>

#include <utility>

#include "step.hpp"

namespace unisono::strategies {
namespace {

constexpr Named<Topology> kTopologies[] = {
    {Topology::ring, "ring", "with the ranks before and after it"},
    {Topology::grid, "grid", "with four neighbours, in a grid whose borders meet (a torus)"},
    {Topology::exponential, "exponential",
     "with one rank each time: in the k-th exchange rank r sends to r + 2^k and receives from r - 2^k; after log2(P) "
     "exchanges, k is 0 again"},
    {Topology::complete, "complete", "with all: the mean of all ranks, by an allreduce"}};

constexpr Named<GossipOrder> kOrders[] = {
    {GossipOrder::combine_then_adapt, "combine_then_adapt",
     "the step goes from the mixed parameters, with the gradient at the rank's own; the messages travel while the "
     "gradient is computed"},
    {GossipOrder::adapt_then_combine, "adapt_then_combine",
     "the step is made first, and its result is mixed; the messages follow the step"}};

constexpr Named<GossipMomentum> kMomenta[] = {
    {GossipMomentum::keep, "keep", "every rank keeps its own state"},
    {GossipMomentum::mix, "mix",
     "it is mixed like the parameters, at the price of as many messages again for each "
     "vector"}};

}  // namespace

void GossipCounters::describe(CounterVisitor& visitor) {
  consensus.describe(visitor);
  const CounterGroup group(visitor, "gossip");
  visitor.count({.name = "sent_bytes", .unit = "bytes"}, sent_bytes);
  consensus.describe_in_summary(visitor);
  visitor.number({.name = "second_singular_value", .combine = Combine::same}, second_singular_value);
  visitor.count({.name = "rounds", .combine = Combine::same}, rounds);
}

std::string GossipCounters::text(const CounterTerms& terms) const {
  return gossip_text(terms, sent_bytes, consensus,
                     fmt::format("an exchange leaves at most {:.2f} of a distance{}", second_singular_value,
                                 rounds == 1 ? "" : fmt::format(" (of {} exchanges)", rounds)));
}

namespace {

class Gossip final : public Strategy {
 public:
  explicit Gossip(const GossipSettings& settings) : settings_(settings) {}

  void train(TrainContext& run) override;
  bool optimizer_state_is_local() const override { return true; }
  std::vector<parallel::StateVector> state_vectors() const override {
    return {
        {.name = "replica", .scope = parallel::StateScope::replica},
        {.name = "replica_statistics", .scope = parallel::StateScope::replica, .of = parallel::StateOf::statistics}};
  }
  std::string need_of_examples(const models::Model& model) const override {
    return need_of_examples_for_statistics(model);
  }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int) const override;
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int states,
                                 const data::DatasetInfo&) const override;

 private:
  bool combines_first() const { return settings_.order == GossipOrder::combine_then_adapt; }
  /// Whether ranks exchange messages with neighbours; else all are added up.
  bool by_messages() const { return settings_.topology != Topology::complete; }

  GossipSettings settings_;
};

/// The vector that exchanges write to, and the buffers of the pieces.
std::int64_t Gossip::extra_bytes(const models::Model& model, int ranks, int) const {
  const Index n = model.layout().size();
  return (combines_first() ? static_cast<std::int64_t>(sizeof(float)) * n : 0) +
         (by_messages() ? neighbour_exchange_bytes(Mixing(settings_.topology, ranks), n) : 0);
}

std::optional<Traffic> Gossip::traffic(const models::Model& model, int ranks, int states,
                                       const data::DatasetInfo&) const {
  const int vectors = settings_.momentum == GossipMomentum::mix ? 1 + states : 1;
  const auto period = static_cast<double>(settings_.period);
  Exchange exchange{.floats = vectors * model.layout().size(),
                    .every_steps = period,
                    .during = combines_first() ? During::gradient : During::nothing};
  if (by_messages()) {
    const Mixing mixing(settings_.topology, ranks);
    exchange.pattern = Pattern::neighbours;
    exchange.rounds = mixing.rounds();
    exchange.receivers = [mixing](int round, int rank) { return mixing.row(round, rank).to; };
  }
  const double mixed = 3.0 * static_cast<double>(exchange.floats) / period;
  std::vector<Wait> waits;
  if (combines_first() && by_messages()) waits.push_back({.per_step = 1 / period});
  return Traffic{.exchanges = {std::move(exchange)}, .touched_floats = mixed, .waits = std::move(waits)};
}

/// This rank's part of the training.
class GossipRank {
 public:
  GossipRank(TrainContext& run, const GossipSettings& settings)
      : run_(run),
        settings_(settings),
        own_(own_context(run)),
        mixing_(settings.topology, run.communicator.size()),
        exchange_(settings.topology == Topology::complete ? make_complete_exchange(run)
                                                          : make_neighbour_exchange(run, mixing_)),
        counters_(run.counters.of<GossipCounters>()) {
    if (settings.order == GossipOrder::combine_then_adapt) {
      mixed_ = Buffer(std::ssize(own_.state.parameters), run.backend.memory());
      run.backend.memory().copy(own_.state.parameters, mixed_.view());  // also what is not trained
    }
    counters_ = {.second_singular_value = mixing_.second_singular_value(), .rounds = mixing_.rounds()};
  }

  /// \return the last micro-batch
  data::Batch step(std::int64_t step, double rate);
  void form_consensus() { strategies::form_consensus(run_, own_.state, counters_.consensus); }

 private:
  bool mixes_in(std::int64_t step) const { return run_.communicator.size() > 1 && (step + 1) % settings_.period == 0; }
  void start_exchange(std::int64_t step, MutableView into);
  void finish_exchange();
  void adapt(const data::Batch& batch, double rate);

  TrainContext& run_;
  const GossipSettings& settings_;
  TrainContext own_;  ///< with this rank's θ_r and running statistics in place of the consensus
  Mixing mixing_;
  std::unique_ptr<MixingExchange> exchange_;
  GossipCounters& counters_;
  Buffer mixed_;  ///< where combined first: what the present exchange writes to
};

data::Batch GossipRank::step(std::int64_t step, double rate) {
  const bool mixes = mixes_in(step), combines_first = settings_.order == GossipOrder::combine_then_adapt;
  if (mixes && combines_first) start_exchange(step, mixed_.view());
  const data::Batch batch = own_.replica.gradient_of_step(own_, parallel::MeanOver::own_examples, nullptr);
  if (mixes && combines_first) {
    finish_exchange();
    std::swap(run_.vectors[kReplica].values, mixed_);
    own_.state.parameters = run_.vectors[kReplica].values.view();
  }
  adapt(batch, rate);
  if (mixes && !combines_first) {
    start_exchange(step, own_.state.parameters);
    finish_exchange();
  }
  return batch;
}

void GossipRank::start_exchange(std::int64_t step, MutableView into) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  std::vector<MixedVector> vectors = {{own_.state.parameters, into}};
  if (settings_.momentum == GossipMomentum::mix) {
    for (optim::OptimizerState& state : run_.optimizer->state()) {
      vectors.push_back({state.values.view(), state.values.view()});
    }
  }
  const std::int64_t exchanges_before = (step + 1) / settings_.period - 1;
  exchange_->start(static_cast<int>(exchanges_before % mixing_.rounds()), vectors);
}

void GossipRank::finish_exchange() {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  exchange_->finish();
  counters_.sent_bytes = exchange_->sent_bytes();
}

/// θ_r ← θ_r − rate · direction(P n_r/n · mean gradient over the n_r examples of this rank)
void GossipRank::adapt(const data::Batch& batch, double rate) {
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  const double share = static_cast<double>(batch.rank_step_size) / static_cast<double>(batch.global_size);
  const auto scale = static_cast<float>(run_.communicator.size() * share);
  run_.runtime.update(std::ssize(own_.state.parameters),
                      [&] { run_.optimizer->step(own_.state.parameters, run_.gradient, rate, scale); });
}

void Gossip::train(TrainContext& run) {
  GossipRank rank(run, settings_);
  bool go_on = true;
  std::int64_t due = run.observer.next_due(run.first_step);
  for (std::int64_t step = run.first_step; go_on && step < run.total_steps; ++step) {
    const double rate = run.schedule.rate(step);
    const data::Batch batch = rank.step(step, rate);
    const std::int64_t made = step + 1;
    const bool is_due = made == due || made == run.total_steps;
    if (is_due) rank.form_consensus();
    go_on = run.observer.step(make_record(batch, made, rate, /*consistent=*/is_due));
    if (is_due) due = run.observer.next_due(made);
  }
}

void describe_gossip(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<GossipSettings>();
  visitor.choice({.name = "topology", .meaning = "with whom a rank exchanges parameters"}, own.topology, kTopologies);
  visitor.choice({.name = "order", .meaning = "whether parameters are mixed before the optimizer's step or after it"},
                 own.order, kOrders);
  visitor.choice({.name = "momentum", .meaning = "what happens to the optimizer's state in an exchange"}, own.momentum,
                 kMomenta);
  visitor.field({.name = "period",
                 .meaning = "steps of a rank from one exchange to the next",
                 .unit = "steps",
                 .range = at_least(1)},
                own.period);
}

void check_gossip(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) {
  const bool mixes = settings.own.of<GossipSettings>().momentum == GossipMomentum::mix;
  visitor.require(
      "strategy", !mixes || terms.optimizer_states > 0,
      "strategy.momentum = \"mix\" means nothing here: this optimizer keeps no vectors that could be mixed; "
      "remove it, or set optimizer.momentum or another optimizer.kind");
}

}  // namespace

StrategyKind gossip_strategy() {
  return {.name = "gossip",
          .meaning =
              "training without a centre (D-PSGD): each rank trains its own parameters, and mixes them with its "
              "neighbours'; the mean of all ranks is the model",
          .describe = describe_gossip,
          .check = check_gossip,
          .make = construct<Gossip, GossipSettings>,
          .traits = {.needs_gradient = true, .trains_replicas = true, .simulated = true},
          .waiting = "ranks waited for their neighbours",
          .relief = [](const StrategySettings&, bool) -> std::string {
            return "a longer period, topology = \"exponential\" or order = \"combine_then_adapt\" waits less";
          },
          .proposals = {{"gossip, exponential", {}, "ranks differ, and mix with one other after each step", true}}};
}

}  // namespace unisono::strategies
