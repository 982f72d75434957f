#include "plan/pipelines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "unisono/comm/communicator.hpp"
#include "unisono/models/gradient_times.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/model_parts.hpp"

// How long a step of pipelines takes:
//   passes + bubble + messages between stages + update + what is exposed of sums over the replicas
// The passes of all layers together take as long as was measured for the gradient of a micro-batch; each layer has its
// share of that. parallel::forecast simulates the schedule: with free messages, which gives the bubble, and with those
// of the links. All stages wait for the largest update. Stages of a host share its link for their sums.
namespace unisono::planning {
namespace {

using strategies::Exchange;

std::size_t index_of(int i) { return static_cast<std::size_t>(i); }

class PipelinePredictor {
 public:
  PipelinePredictor(const Planned& planned, const settings::Config& config, const Ranks& ranks)
      : planned_(planned),
        config_(config),
        ranks_(ranks),
        stages_(config.stages()),
        replicas_(ranks.all() / stages_),
        strategy_(strategies::make_strategy(config.strategy)),
        context_(session::model_context(planned.backend, alone_, strategy_->steps_together(), config, planned.data)),
        of_rank_(config, session::inputs_of(planned.data), context_),
        plan_(config, of_rank_.model(), planned.backend, planned.data, *strategy_, abilities()) {
    session::require_stages(config, of_rank_.model(), planned.backend, ranks.all());
    placed_ = session::place_model(plan_, config);
  }

  Prediction predict();
  /// The config with what it leaves to the placement.
  settings::Config chosen() const { return session::chosen(plan_, config_, placed_).config; }

 private:
  session::RankAbilities abilities() const;
  void add_passes(double gradient);
  void add_passes(double alone, double together);
  void add_messages(parallel::PlacementProblem& problem);
  void add(const Exchange& exchange);
  std::vector<double> shares() const;
  double share_of_host() const;
  int host_of(int replica, int stage) const {
    return (replica * stages_ + placed_.placement.ranks[index_of(stage)]) / ranks_.per_host;
  }

  const Planned& planned_;
  const settings::Config& config_;
  const Ranks ranks_;
  const int stages_, replicas_;
  const std::unique_ptr<strategies::Strategy> strategy_;
  LocalReducer alone_;
  const models::ModelContext context_;
  const session::ModelOfRank of_rank_;
  const session::StagePlan plan_;
  session::PlacedModel placed_;
  Prediction made_;
};

/// All ranks can do the same. How fast they are is not known yet, only how their time is divided among the segments.
session::RankAbilities PipelinePredictor::abilities() const {
  const auto count = index_of(ranks_.all());
  session::RankAbilities abilities{.ranks = ranks_.all(), .process_bytes = planned_.process_bytes};
  abilities.limits.assign(count, planned_.profile.memory_limit());
  const auto passes = planned_.profile.segments.passes();
  if (!passes.empty()) abilities.seconds.assign(count, passes);
  return abilities;
}

/// Of all parameters, what each stage has.
std::vector<double> PipelinePredictor::shares() const {
  std::vector<double> shares(index_of(stages_));
  const std::vector<int>& cuts = placed_.placement.cuts;
  const auto all = static_cast<double>(std::max<Index>(1, planned_.model.layout().size()));
  for (int p = 0; p + 1 < std::ssize(cuts); ++p) {
    const FloatRange held = plan_.network().piece(cuts[index_of(p)], cuts[index_of(p + 1)]).parameters();
    shares[index_of(p % stages_)] += static_cast<double>(held.last - held.first) / all;
  }
  return shares;
}

/// Of all parameters, what the ranks of a host hold together, at most: of several replicas, once.
double PipelinePredictor::share_of_host() const {
  const std::vector<double> shares = this->shares();
  std::vector<std::set<int>> stages(index_of(ranks_.hosts));
  for (int replica = 0; replica < replicas_; ++replica) {
    for (int stage = 0; stage < stages_; ++stage) stages[index_of(host_of(replica, stage))].insert(stage);
  }
  double most = 0;
  for (const std::set<int>& of_host : stages) {
    double share = 0;
    for (const int stage : of_host) share += shares[index_of(stage)];
    most = std::max(most, share);
  }
  return most;
}

/// \param gradient seconds of a micro-batch's gradient on a rank with all layers
void PipelinePredictor::add_passes(double gradient) {
  parallel::PlacementProblem problem = placed_.problem;
  parallel::PassSeconds whole;
  for (const parallel::PassSeconds& segment : problem.seconds.front()) whole += segment;
  const double scale = gradient / whole.sum();
  for (auto& segments : problem.seconds) {
    for (parallel::PassSeconds& one : segments) {
      one = {scale * one.forward, scale * one.backward_inputs, scale * one.backward_weights};
    }
  }
  const parallel::Forecast free = parallel::forecast(problem, placed_.placement);
  made_.gradient = std::accumulate(free.busy.begin(), free.busy.end(), 0.0) / stages_;
  made_.bubble = free.seconds - made_.gradient;
  add_messages(problem);
  made_.boundaries = std::max(0.0, parallel::forecast(problem, placed_.placement).seconds - free.seconds);
}

/// While some stages wait, fewer compute than were measured together.
/// \param alone, together seconds of a micro-batch's gradient while no other rank computes, and while all do
void PipelinePredictor::add_passes(double alone, double together) {
  constexpr int kRounds = 10;
  double busy = 1;  // share of the others' time in which they compute
  for (int round = 0; round < (together > alone ? kRounds : 1); ++round) {
    add_passes(alone + busy * (together - alone));
    busy = made_.gradient / (made_.gradient + made_.bubble + made_.boundaries);
  }
}

/// Says which links the boundaries of the pieces cross; where only some replicas cross a slow one, all wait for these.
void PipelinePredictor::add_messages(parallel::PlacementProblem& problem) {
  const std::vector<int>& cuts = placed_.placement.cuts;
  std::vector<double> sent(index_of(ranks_.hosts));  // to other hosts
  for (int p = 0; p + 2 < std::ssize(cuts); ++p) {
    parallel::BoundaryCost& boundary = problem.boundaries[index_of(cuts[index_of(p + 1)] - 1)];
    const Link* link = &planned_.profile.in_host;
    for (int replica = 0; replica < replicas_; ++replica) {
      const int from = host_of(replica, p % stages_), to = host_of(replica, (p + 1) % stages_);
      if (from == to) continue;
      link = &planned_.profile.between_hosts;
      for (const int host : {from, to}) sent[index_of(host)] += problem.micro_batches * boundary.bytes;
    }
    boundary.latency = link->latency();
    boundary.bandwidth = link->bytes_per_second();
  }
  made_.sent_bytes = std::ranges::max(sent);
}

/// A sum over the same stage of all replicas. Beside the backward pass it has that of the last micro-batch.
void PipelinePredictor::add(const Exchange& exchange) {
  const ExchangeCost cost = cost_over_replicas(
      planned_, ranks_,
      {.ranks = stages_, .replicas = replicas_, .share = std::ranges::max(shares()), .share_of_host = share_of_host()},
      exchange);
  const double passes = made_.gradient + made_.bubble + made_.boundaries;
  const double last = (1 - models::GradientTimes::kForward) * made_.gradient / placed_.problem.micro_batches;
  made_.add(cost, exchange.every_steps,
            exposed(exchange, cost.link,
                    {.link_share = planned_.profile.busy_link_share,
                     .backward = last,
                     .passes = passes,
                     .step = passes + made_.update}));
}

Prediction PipelinePredictor::predict() {
  const int states = optim::optimizer_state_vectors(config_.optimizer);
  const auto traffic = strategy_->traffic(planned_.model, replicas_, states, planned_.data);
  const auto micro_batch = static_cast<double>(session::largest_part(config_, replicas_));
  const ComputingSeconds computing = computing_seconds(planned_.profile, ranks_, micro_batch, &*traffic);
  const double largest = std::ranges::max(shares());
  made_.ranks = ranks_;
  made_.stages = stages_;
  made_.makes_serial_steps = traffic->makes_serial_steps && planned_.model.statistics_layout().size() == 0;
  made_.examples = (config_.train.batch_size + replicas_ - 1) / replicas_;
  const ComputingSeconds alone = computing_seconds(planned_.profile, {}, micro_batch, nullptr);
  add_passes(std::min(alone.gradient, computing.gradient), computing.gradient);
  made_.update = computing.update * largest;
  if (replicas_ > 1) {
    if (strategy_->sharding() == parallel::Sharding::always) made_.update /= replicas_;
    made_.messages = touching_seconds(planned_.profile, ranks_, micro_batch, states, planned_.model.layout().size(),
                                      largest * traffic->touched_floats);
    for (const Exchange& exchange : traffic->exchanges) add(exchange);
  }
  const auto batch = static_cast<double>(config_.train.batch_size);
  made_.set_speed(planned_.profile, batch, batch / ranks_.all());
  for (int stage = 0; stage < stages_; ++stage) {
    made_.memory_bytes =
        std::max(made_.memory_bytes, session::sum(plan_.memory(placed_.sizes, placed_.placement, stage)));
  }
  return made_;
}

/// The config with its schedule, and a placement that chooses cuts, and whether activations are computed anew.
settings::Config divided(settings::Config config, int stages, std::int64_t micro_batches) {
  config.replica.stages = stages;
  config.replica.recompute = parallel::Recompute::automatic;
  config.replica.placement = {};
  config.train.micro_batches = micro_batches;
  return config;
}

bool is_better(const Prediction& a, const Prediction& b, double limit) {
  const bool a_fits = static_cast<double>(a.memory_bytes) <= limit,
             b_fits = static_cast<double>(b.memory_bytes) <= limit;
  if (a_fits != b_fits) return a_fits;
  return a_fits ? a.examples_per_second > b.examples_per_second : a.memory_bytes < b.memory_bytes;
}

}  // namespace

Prediction predict_pipeline(const Planned& planned, const Way& way, const Ranks& ranks) {
  return PipelinePredictor(planned, way.config, ranks).predict();
}

std::optional<ProposedPipeline> propose_pipeline(const Planned& planned, const Way& way, const Ranks& ranks,
                                                 int stages) {
  std::optional<ProposedPipeline> best;
  for (int each = 1; each <= kMostMicroBatches; each *= 2) {
    const std::int64_t micro_batches = std::int64_t{each} * ranks.all();
    if (micro_batches > way.config.train.batch_size) break;
    const settings::Config open = divided(way.config, stages, micro_batches);
    Way made = with_config(way, PipelinePredictor(planned, open, ranks).chosen());
    const Prediction prediction = predict_pipeline(planned, made, ranks);
    if (best && !is_better(prediction, best->made, planned.profile.memory_limit())) continue;
    const int replicas = ranks.all() / stages;
    made.name = fmt::format("{}{} of {} stages, {} micro-batches", replicas == 1 ? "" : way.config.strategy.kind + ", ",
                            replicas == 1 ? "pipeline" : fmt::format("{} pipelines", replicas), stages, micro_batches);
    if (!prediction.makes_serial_steps) made.result = "batch statistics are those of micro-batches";
    best = ProposedPipeline{.way = std::move(made), .made = prediction};
  }
  return best;
}

std::vector<int> stages_to_propose(const Ranks& ranks, int most) {
  const int all = ranks.all();
  most = std::min(all, most);
  while (most > 1 && all % most != 0) --most;
  std::set<int> numbers = {2, ranks.per_host, most};
  std::erase_if(numbers, [&](int number) { return number < 2 || number > most || all % number != 0; });
  return {numbers.begin(), numbers.end()};
}

}  // namespace unisono::planning
