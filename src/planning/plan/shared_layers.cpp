#include "plan/shared_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "unisono/base/errors.hpp"
#include "unisono/comm/tensor_group.hpp"
#include "unisono/models/gradient_times.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/model_parts.hpp"

// How long a step takes where ranks share the work of each layer (tensor parallelism):
//   passes + sums of layers + update + what is exposed of sums over the replicas
// A rank's passes are the measured gradient of its replica's examples, times its share of the flops of each segment,
// which counts as much as the segment's passes took. What layers add up is counted in a pass over a few examples, by
// what counts it in runs; all wait for these sums.
namespace unisono::planning {
namespace {

using strategies::Exchange;

double flops_of(const nn::PieceCost& cost) { return cost.flops() + cost.again; }

/// Flops of an example up to the end of each segment.
std::vector<double> flops_until(const nn::Network& network, const std::vector<nn::CutPoint>& points) {
  std::vector<double> flops;
  for (const nn::CutPoint& point : points) flops.push_back(flops_of(point.before));
  flops.push_back(flops_of(network.piece(0, static_cast<int>(points.size()) + 1).cost()));
  return flops;
}

/// The ranks that share layers: neighbours, on as few hosts as possible.
Ranks group_of(const Ranks& ranks, int tensor) {
  if (ranks.per_host % tensor == 0) return {1, tensor};
  if (tensor % ranks.per_host == 0) return {tensor / ranks.per_host, ranks.per_host};
  throw ConfigError(fmt::format("its {} that share layers are neither a part of the {} of a host nor all of several",
                                count_of(tensor, "rank"), ranks.per_host));
}

/// What a rank's layers add up in a step.
struct LayerSums {
  double bytes = 0, number = 0;
};

class SharedLayersPredictor {
 public:
  SharedLayersPredictor(const Planned& planned, const settings::Config& config, const Ranks& ranks)
      : planned_(planned),
        config_(config),
        ranks_(ranks),
        tensor_(static_cast<int>(config.replica.tensor)),
        replicas_(ranks.all() / tensor_),
        strategy_(strategies::make_strategy(config.strategy)),
        parts_(session::make_model_parts(config, session::inputs_of(planned.data), planned.model, context(), &group_)) {
  }

  Prediction predict();

 private:
  models::ModelContext context() {
    return session::model_context(*backend_, *one_rank_, strategy_->steps_together(), config_, planned_.data);
  }
  models::Model& part() const { return *parts_.front(); }
  double share() const {
    const auto all = static_cast<double>(std::max<Index>(1, planned_.model.layout().size()));
    return static_cast<double>(part().layout().size()) / all;
  }
  LayerSums sums_of_layers(Index examples) const;
  void add_sums_of_layers(const LayerSums& sums);
  void add(const Exchange& exchange);

  const Planned& planned_;
  const settings::Config& config_;
  const Ranks ranks_;
  const int tensor_, replicas_;
  const std::unique_ptr<strategies::Strategy> strategy_;
  const std::unique_ptr<kernels::Backend> backend_ = kernels::make_cpu_backend(1);
  const std::unique_ptr<Reducer> one_rank_ = std::make_unique<LocalReducer>();
  const std::unique_ptr<comm::Communicator> self_ = comm::make_self_communicator();
  comm::CommunicatorTensorGroup group_{*self_};  // that counts sums, and waits for nobody
  const std::vector<std::unique_ptr<models::Model>> parts_;
  Prediction made_;
};

/// Counted in a pass over all examples, or over some of them: sums are as long as rows take memory.
LayerSums SharedLayersPredictor::sums_of_layers(Index examples) const {
  constexpr Index kMostRows = 1024;
  const Index rows = part().staged()->network().in().rows;
  const Index some = std::clamp<Index>(kMostRows / rows, 1, examples);
  const double needed = sizeof(float) * 2.0 * static_cast<double>(part().layout().size()) +
                        static_cast<double>(part().workspace_bytes(some));
  if (needed > planned_.profile.memory_limit()) {
    throw ConfigError(fmt::format("a rank's part of the model needs {} or more, and a rank may take {}",
                                  session::bytes_text(needed), session::bytes_text(planned_.profile.memory_limit())));
  }
  const auto size_of = [&](Index of) {
    return static_cast<double>(backend_->activation_size({.channels = 1, .height = 1, .width = 1}, of * rows));
  };
  session::try_pass(part(), *backend_, planned_.data, some);
  return {.bytes = static_cast<double>(group_.bytes()) * size_of(examples) / size_of(some),
          .number = static_cast<double>(group_.sums())};
}

void SharedLayersPredictor::add_sums_of_layers(const LayerSums& sums) {
  if (sums.number == 0) return;
  const Network network(planned_.profile, group_of(ranks_, tensor_), planned_.measured_links);
  const ExchangeCost one = network.sum_of_layers(sums.bytes / sums.number);
  made_.layer_bytes = sums.bytes;
  made_.add(one, /*every_steps=*/1 / sums.number, /*waiting=*/sums.number * one.link);
}

/// A sum over the ranks with the same part of all replicas.
void SharedLayersPredictor::add(const Exchange& exchange) {
  const ExchangeCost cost = cost_over_replicas(planned_, ranks_,
                                               {.ranks = tensor_,
                                                .replicas = replicas_,
                                                .share = share(),
                                                .share_of_host = share() * std::min(tensor_, ranks_.per_host)},
                                               exchange);
  const double backward = (1 - models::GradientTimes::kForward) * made_.gradient;
  const Overlap overlap{.link_share = planned_.profile.busy_link_share,
                        .backward = backward,
                        .passes = made_.gradient,
                        .step = made_.gradient + made_.update};
  made_.add(cost, exchange.every_steps, exposed(exchange, cost.link, overlap));
}

Prediction SharedLayersPredictor::predict() {
  const int states = optim::optimizer_state_vectors(config_.optimizer);
  const auto traffic = strategy_->traffic(planned_.model, replicas_, states, planned_.data);
  const Index examples = session::largest_part(config_, replicas_);
  const auto own = static_cast<double>(examples);
  const ComputingSeconds computing = computing_seconds(planned_.profile, ranks_, own, &*traffic);
  made_.ranks = ranks_;
  made_.tensor = tensor_;
  made_.makes_serial_steps = traffic->makes_serial_steps;
  made_.examples = examples;
  made_.gradient = computing.gradient * share_of_passes(planned_.model.staged()->network(), part().staged()->network(),
                                                        planned_.profile.segments.passes());
  made_.update = computing.update * share();
  add_sums_of_layers(sums_of_layers(examples));
  if (replicas_ > 1) {
    if (strategy_->sharding() == parallel::Sharding::always) made_.update /= replicas_;
    made_.messages += touching_seconds(planned_.profile, ranks_, own, states, planned_.model.layout().size(),
                                       share() * traffic->touched_floats);
    for (const Exchange& exchange : traffic->exchanges) add(exchange);
  }
  const auto batch = static_cast<double>(config_.train.batch_size);
  made_.set_speed(planned_.profile, batch, batch / ranks_.all());
  made_.memory_bytes = memory_of_rank(planned_, config_, ranks_);
  return made_;
}

}  // namespace

double share_of_passes(const nn::Network& whole, const nn::Network& part,
                       const std::vector<parallel::PassSeconds>& seconds) {
  const std::vector<nn::CutPoint> points = whole.cut_points(), own_points = part.cut_points();
  const std::vector<double> until = flops_until(whole, points), own_until = flops_until(part, own_points);
  double all = 0, own = 0;
  double since = 0, flops = 0, own_flops = 0;  // since the last cut point of both; and flops up to it
  std::size_t k = 0;                           // a part has no cut points inside of what its ranks divide together
  for (std::size_t i = 0; i < until.size(); ++i) {
    since += seconds.empty() ? until[i] - (i == 0 ? 0 : until[i - 1]) : seconds[i].sum();
    const bool is_last = i + 1 == until.size();
    if (!is_last && (k == own_points.size() || points[i].next != own_points[k].next)) continue;
    const double end = is_last ? own_until.back() : own_until[k];
    all += since;
    own += until[i] > flops ? since * (end - own_flops) / (until[i] - flops) : since;
    since = 0;
    flops = until[i];
    own_flops = end;
    ++k;
  }
  return own / all;
}

Prediction predict_shared_layers(const Planned& planned, const Way& way, const Ranks& ranks) {
  return SharedLayersPredictor(planned, way.config, ranks).predict();
}

bool has_layers_to_share(const Planned& planned, const settings::Config& config) {
  LocalReducer alone;
  models::ModelContext half = session::model_context(planned.backend, alone, true, config);
  half.part = {.leaves = 2};
  try {
    return models::make_model(config.model, session::inputs_of(planned.data), half)->layout().parameters() <
           planned.model.layout().parameters();
  } catch (const ConfigError&) {
    return true;  // layers that cannot be halved may be divided by another number
  }
}

Way share_layers(const Way& way, const Ranks& ranks, int tensor) {
  settings::Config config = way.config;
  config.replica.tensor = tensor;
  config.replica.tensor_leaves = 0;
  Way made = with_config(way, std::move(config));
  const bool alone = ranks.all() == tensor;
  made.name =
      fmt::format("{}layers shared by {}", alone ? "" : way.config.strategy.kind + ", ", count_of(tensor, "rank"));
  return made;
}

std::vector<int> tensor_ranks_to_propose(const Ranks& ranks) {
  std::set<int> numbers = {2, ranks.per_host};
  std::erase_if(numbers, [&](int number) { return number < 2 || ranks.per_host % number != 0; });
  return {numbers.begin(), numbers.end()};
}

}  // namespace unisono::planning
