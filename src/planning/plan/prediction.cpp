#include "plan/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "unisono/comm/communicator.hpp"
#include "unisono/models/gradient_times.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/model_parts.hpp"

// How long a step takes:
//   gradient + update + messages + what is exposed of the links
// Gradients and updates are as measured, with as many ranks at work as there will be. Compressing, mixing and copying
// messages takes time of the ranks' cores, which all compute. Links (network.cpp) work meanwhile: only what outlasts
// the computation is exposed.
namespace unisono::planning {
namespace {

using strategies::During;
using strategies::Exchange;
using strategies::Pattern;

/// Seconds that threads which wait for messages take from a computation.
double lost_to_waits(const WaitingCosts& costs, const std::vector<strategies::Wait>& waits, double computing) {
  double lost = 0;
  for (const strategies::Wait& wait : waits) {
    lost += wait.threads * computing * (costs.factor_at(computing / wait.per_step) - 1);
  }
  return lost;
}

/// While as many ranks compute.
const StepCurves& steps_on(const Profile& profile, const Ranks& ranks) {
  return measured_on(ranks, profile.one_rank, profile.one_host, profile.all_hosts);
}

}  // namespace

void Prediction::add(const ExchangeCost& cost, double every_steps, double waiting) {
  messages += cost.copying / every_steps;
  exposed += waiting;
  sent_bytes += cost.sent_bytes / every_steps;
}

void Prediction::set_speed(const Profile& profile, double batch, double of_rank) {
  examples_per_second = batch / seconds();
  const double alone = of_rank / profile.one_rank.whole_steps().at(of_rank);
  efficiency = examples_per_second / (alone * ranks.all());
}

ComputingSeconds computing_seconds(const Profile& profile, const Ranks& ranks, double examples,
                                   const strategies::Traffic* traffic) {
  const bool is_alone = ranks.all() == 1;
  const StepCurves& steps = steps_on(profile, ranks);
  ComputingSeconds seconds{.gradient = steps.gradients().at(examples), .update = steps.updates().at(examples)};
  if (is_alone || (traffic != nullptr && traffic->makes_own_steps)) {
    const double whole = steps.whole_steps().at(examples);
    seconds.gradient = std::min(seconds.gradient, whole);
    seconds.update = whole - seconds.gradient;
  }
  if (!is_alone && traffic != nullptr) {
    seconds.gradient += lost_to_waits(profile.waiting, traffic->waits, seconds.gradient);
  }
  return seconds;
}

/// An update reads and writes for each parameter: θ twice, g, and twice each vector of the optimizer.
double touching_seconds(const StepCurves& steps, double examples, int states, Index parameters, double floats) {
  const double of_update = (3.0 + 2.0 * states) * static_cast<double>(parameters);
  return steps.updates().at(examples) * floats / of_update;
}

double touching_seconds(const Profile& profile, const Ranks& ranks, double examples, int states, Index parameters,
                        double floats) {
  return touching_seconds(steps_on(profile, ranks), examples, states, parameters, floats);
}

std::int64_t memory_of_rank(const settings::Config& config, const Ranks& ranks, kernels::Backend& backend,
                            const data::DatasetInfo& data, std::int64_t process_bytes, bool tries) {
  const auto strategy = strategies::make_strategy(config.strategy);
  LocalReducer alone;
  const models::ModelContext context = session::model_context(backend, alone, strategy->steps_together(), config, data);
  const session::ModelOfRank of_rank(config, session::inputs_of(data), context);
  session::MemoryContext rank{.config = config,
                              .model = of_rank.model(),
                              .backend = backend,
                              .data = data,
                              .ranks = ranks.all() / static_cast<int>(config.replica.tensor),
                              .rank = 0,
                              .one_node = ranks.hosts == 1,
                              .strategy = *strategy,
                              .process_bytes = process_bytes};
  if (!tries) rank.most_tried_bytes = 0;
  return session::sum(session::predict_memory(rank));
}

std::int64_t memory_of_rank(const Planned& planned, const settings::Config& config, const Ranks& ranks) {
  const auto memory = [&](bool tries) {
    return memory_of_rank(config, ranks, planned.backend, planned.data, planned.process_bytes, tries);
  };
  const std::int64_t estimated = memory(/*tries=*/false);
  return static_cast<double>(estimated) <= planned.profile.memory_limit() ? memory(true) : estimated;
}

ExchangeCost cost_over_replicas(const Planned& planned, const Ranks& ranks, const DividedReplicas& divided,
                                const Exchange& exchange) {
  const int together = std::max(1, ranks.per_host / divided.ranks);  // replicas on a host
  const Ranks group{(divided.replicas + together - 1) / together, together};
  const Network network(planned.profile, group, planned.measured_links);
  const double bytes = sizeof(float) * static_cast<double>(exchange.floats);
  ExchangeCost cost = network.cost(exchange, bytes * divided.share_of_host);
  cost.copying = network.cost(exchange, bytes * divided.share).copying;
  return cost;
}

double exposed(const Exchange& exchange, double link, const Overlap& overlap) {
  const double every = exchange.every_steps;
  const auto left = [&overlap](double seconds, double computing) {
    return std::max(seconds - overlap.link_share * computing, 0.0);
  };
  switch (exchange.during) {
    case During::nothing:
      return link / every;
    case During::backward:
      return left(link, overlap.backward) / every;
    case During::gradient:
      return left(link, overlap.passes) / every;
    case During::period:
      return left(link / every, overlap.step);
  }
  return 0;
}

std::string obstacle_to_division(const Planned& planned, const settings::Config& config, int replicas) {
  const auto strategy = strategies::make_strategy(config.strategy);
  const auto traffic = strategy->traffic(planned.model, replicas, 0, planned.data);
  const bool known = traffic && (replicas == 1 || std::ranges::all_of(traffic->exchanges, [](const Exchange& one) {
                                   return one.pattern == Pattern::sum && !one.encoded;
                                 }));
  if (!strategy->traits().trains_replicas) return "it trains only models that each rank holds as a whole";
  if (!known) return "its messages between replicas are not known to plan, only whole sums are";
  if (config.communication.tree_leaves() > 0 && config.communication.leaves < replicas) {
    return "communication.leaves is less than the replicas";
  }
  return "";
}

namespace {

const EncoderSpeed* encoder_of(const Profile& profile, const Way& way) {
  const auto found = std::ranges::find(profile.encoders, way.name, &EncoderSpeed::of);
  return found == profile.encoders.end() ? nullptr : &*found;
}

class Predictor {
 public:
  Predictor(const Planned& planned, const Way& way, const Ranks& ranks)
      : planned_(planned),
        way_(way),
        ranks_(ranks),
        network_(planned.profile, ranks, planned.measured_links),
        strategy_(strategies::make_strategy(way.config.strategy)),
        states_(optim::optimizer_state_vectors(way.config.optimizer)),
        traffic_(*strategy_->traffic(planned.model, ranks.all(), states_, planned.data)),
        encoder_(encoder_of(planned.profile, way)),
        examples_(static_cast<double>(way.config.train.batch_size) / strategy_->workers(ranks.all())) {
    if (encoder_ != nullptr && encoder_->in_host_ns + encoder_->of_all_ns > 0) {
      traffic_.waits.clear();  // what they cost was timed, too
    }
  }

  Prediction predict();

 private:
  double bytes_of(const Exchange& exchange) const;
  double added_ns(const Ranks& ranks) const;
  ExchangeCost modelled(const Exchange& exchange, const Ranks& ranks) const;
  ExchangeCost encoded(const Exchange& exchange) const;
  ExchangeCost cost_of(const Exchange& exchange) const {
    return exchange.encoded && encoder_ != nullptr ? encoded(exchange) : network_.cost(exchange, bytes_of(exchange));
  }
  void add_exchanges();
  void add_disturbed_exchanges();
  double late_start() const;
  double lost_to_others() const;
  double delay(const std::vector<double>& shares, std::size_t exchange) const;
  double exposed_of_buckets(const Exchange& exchange) const;
  bool shards_updates() const;

  const Planned& planned_;
  const Way& way_;
  const Ranks ranks_;
  const Network network_;
  const std::unique_ptr<strategies::Strategy> strategy_;
  const int states_;
  strategies::Traffic traffic_;
  const EncoderSpeed* encoder_;
  const double examples_;  ///< of a worker in a step
  Prediction made_;
};

double Predictor::bytes_of(const Exchange& exchange) const {
  const double bytes = exchange.encoded && encoder_ != nullptr ? encoder_->bytes_per_float : sizeof(float);
  return bytes * static_cast<double>(exchange.floats);
}

/// What compressed sums add to a step of some ranks, for each float; 0: not measured.
double Predictor::added_ns(const Ranks& ranks) const {
  const Profile& profile = planned_.profile;
  if (encoder_ == nullptr || ranks.per_host != profile.ranks_per_host) return 0;
  if (ranks.hosts == 1) return encoder_->in_host_ns;
  return ranks.hosts == profile.hosts && planned_.measured_links ? encoder_->of_all_ns : 0;
}

/// Seconds of a sum of messages that are compressed: encoders by themselves, and what is sent.
ExchangeCost Predictor::modelled(const Exchange& exchange, const Ranks& ranks) const {
  const auto n = static_cast<double>(exchange.floats), all = static_cast<double>(ranks.all());
  double encoded = n, added = n;
  if (exchange.pattern == Pattern::slices) {
    encoded += n / all;
    added += n;
  } else if (exchange.pattern == Pattern::gather) {
    added *= all;
  }
  ExchangeCost cost = Network(planned_.profile, ranks, planned_.measured_links).cost(exchange, bytes_of(exchange));
  cost.copying += 1e-9 * (encoder_->encode_ns * encoded + encoder_->add_ns * added);
  return cost;
}

/// As measured on these ranks, where nothing more is hidden by computing. Else as modelled; and what steps of the ranks
/// that were measured took longer than that is added: packing, handing over to a thread, and its waits.
ExchangeCost Predictor::encoded(const Exchange& exchange) const {
  const Profile& profile = planned_.profile;
  const double nanoseconds = 1e-9 * static_cast<double>(exchange.floats);
  ExchangeCost cost = modelled(exchange, ranks_);
  if (const double added = added_ns(ranks_); added > 0) {
    return {.copying = nanoseconds * added, .sent_bytes = cost.sent_bytes};
  }
  const Ranks all{static_cast<int>(profile.hosts), static_cast<int>(profile.ranks_per_host)}, host{1, all.per_host};
  for (const Ranks& measured : {all, host}) {
    const double added = nanoseconds * added_ns(measured);
    if (added == 0) continue;
    cost.copying += std::max(added - modelled(exchange, measured).seconds(), 0.0);
    break;
  }
  return cost;
}

/// Waiting for an exchange whose parts start as the backward pass finishes them, from the last layer to the first.
double Predictor::exposed_of_buckets(const Exchange& exchange) const {
  const auto layers = planned_.model.summary(made_.examples);
  const models::GradientTimes times(layers);
  Index parameters = 0;
  for (const models::LayerSummary& layer : layers) parameters += layer.parameters;
  const double whole_bytes = std::max(static_cast<double>(parameters) * sizeof(float), 1.0);
  const auto bucket =
      static_cast<double>(way_.config.communication.bucket_bytes > 0 ? way_.config.communication.bucket_bytes
                                                                     : comm::kBucketBytesBetweenNodes);
  double ready = models::GradientTimes::kForward * made_.gradient, sent = ready, final_bytes = 0, started = 0;
  const auto start = [&](double until) {
    Exchange part = exchange;
    part.floats = static_cast<Index>(static_cast<double>(exchange.floats) * (until - started) / whole_bytes);
    // Until the backward pass ends, messages get a share of the link.
    const double begin = std::max(sent, ready), seconds = cost_of(part).link;
    const double meanwhile = planned_.profile.busy_link_share * std::max(made_.gradient - begin, 0.0);
    sent = seconds <= meanwhile ? begin + seconds / planned_.profile.busy_link_share
                                : std::max(begin, made_.gradient) + seconds - meanwhile;
    started = until;
  };
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (layer->parameters == 0) continue;
    parameters -= layer->parameters;
    ready = made_.gradient * times.of(parameters);
    final_bytes += sizeof(float) * static_cast<double>(layer->parameters);
    while (final_bytes - started >= bucket) start(started + bucket);
  }
  ready = made_.gradient;
  if (final_bytes > started) start(final_bytes);
  return std::max(sent - made_.gradient, 0.0);
}

/// Seconds by which a gradient takes longer while all ranks compute: they share cores and memory.
double Predictor::lost_to_others() const {
  const double together = computing_seconds(planned_.profile, ranks_, examples_, nullptr).gradient;
  return std::max(together - computing_seconds(planned_.profile, {}, examples_, nullptr).gradient, 0.0);
}

/// Seconds of a gradient that are over when an exchange of neighbours begins, for which all of them must have begun:
/// where ranks share cores, some begin only after another one's gradient.
double Predictor::late_start() const {
  const double alone = computing_seconds(planned_.profile, {}, examples_, nullptr).gradient;
  return alone * std::clamp(2 * (1 - alone / made_.gradient), 0.0, 1.0);  // one of two has begun late
}

void Predictor::add_exchanges() {
  for (const Exchange& exchange : traffic_.exchanges) {
    const double late = exchange.pattern == Pattern::neighbours ? late_start() : 0;
    const Overlap overlap{.link_share = planned_.profile.busy_link_share,
                          .passes = made_.gradient - late,
                          .step = made_.gradient + made_.update};
    const ExchangeCost cost = cost_of(exchange);
    const double every = exchange.every_steps;
    const double waiting = exchange.during == During::backward ? exposed_of_buckets(exchange) / every
                                                               : exposed(exchange, cost.link, overlap);
    made_.add(cost, every, waiting);
  }
}

/// How many times as long as its cost says an exchange takes on average, where each rank keeps its own pace.
/// \param shares of a rank's time in which it has a message of each exchange under way
double Predictor::delay(const std::vector<double>& shares, std::size_t exchange) const {
  const double own = shares[exchange];
  const Exchange& one = traffic_.exchanges[exchange];
  switch (one.pattern) {
    case Pattern::neighbours:  // others call the same rank, which answers one of them after the other
      return 1 + own * std::max(one.begin - 1, 0) / std::max(one.answer, 1);
    case Pattern::serve: {
      // A pull meets what others push to this host's shard, and a push what others pull from it. The cost is that while
      // all hosts make the same exchange.
      const double others = std::accumulate(shares.begin(), shares.end(), -own);
      const double crowded = ranks_.hosts > 2 ? planned_.profile.crowded_link_share : 1;
      return (1 + others) * crowded / (1 - own * (1 - crowded));
    }
    default:
      return 1;
  }
}

/// Where each rank keeps its own pace, its messages meet those of others at any time, and the others compute meanwhile.
/// How often that happens depends on how long steps take: the solution is found by going on from one step to the next.
void Predictor::add_disturbed_exchanges() {
  constexpr int kRounds = 30;
  const Prediction computing = made_;
  const double lost = lost_to_others();
  std::vector<ExchangeCost> costs;
  for (const Exchange& exchange : traffic_.exchanges) costs.push_back(cost_of(exchange));
  std::vector<double> shares(costs.size(), 0);
  double busy = 1;  // share of a rank's time in which it computes
  for (int round = 0; round < kRounds; ++round) {
    made_ = computing;
    made_.gradient -= (1 - busy) * lost;
    const double computes = made_.seconds(), speed = 1 - busy * (1 - planned_.profile.busy_link_share);
    const Overlap overlap{.link_share = planned_.profile.busy_link_share,
                          .passes = made_.gradient,
                          .step = made_.gradient + made_.update};
    const std::vector<double> before = shares;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const Exchange& exchange = traffic_.exchanges[i];
      const double link = costs[i].link * delay(before, i);
      shares[i] = link / speed / exchange.every_steps;
      made_.add(costs[i], exchange.every_steps,
                exchange.during == During::period ? 0 : exposed(exchange, link, overlap) / speed);
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {  // these go on while ranks wait for others
      if (traffic_.exchanges[i].during != During::period) continue;
      made_.exposed += std::max(shares[i] - made_.seconds(), 0.0);
    }
    for (double& share : shares) share = std::min(share / made_.seconds(), 1.0);
    busy = std::min(computes / made_.seconds(), 1.0);
  }
}

/// Whether each rank makes a part of each update.
bool Predictor::shards_updates() const {
  const parallel::Sharding sharding = strategy_->sharding();
  if (sharding != parallel::Sharding::where_faster) return sharding == parallel::Sharding::always;
  return ranks_.hosts == 1 && way_.config.communication.tree_leaves() == 0 &&
         parallel::are_faster_on_one_node(planned_.model.layout().size(), states_, ranks_.all());
}

Prediction Predictor::predict() {
  const auto batch = static_cast<double>(way_.config.train.batch_size);
  made_.ranks = ranks_;
  made_.makes_serial_steps = traffic_.makes_serial_steps;
  made_.examples = static_cast<Index>(std::ceil(examples_));
  const ComputingSeconds computing = computing_seconds(planned_.profile, ranks_, examples_, &traffic_);
  made_.gradient = computing.gradient;
  made_.update = computing.update;
  if (ranks_.all() > 1) {
    if (shards_updates()) made_.update /= ranks_.all();
    made_.messages = touching_seconds(planned_.profile, ranks_, examples_, states_, planned_.model.layout().size(),
                                      traffic_.touched_floats);
    if (strategy_->traits().at_own_pace && ranks_.hosts > 1) {
      add_disturbed_exchanges();
    } else {
      add_exchanges();
    }
  }
  made_.set_speed(planned_.profile, batch, examples_);
  made_.memory_bytes = memory_of_rank(planned_, way_.config, ranks_);
  return made_;
}

}  // namespace

Prediction predict(const Planned& planned, const Way& way, const Ranks& ranks) {
  return Predictor(planned, way, ranks).predict();
}

}  // namespace unisono::planning
