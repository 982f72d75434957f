#include "gossip.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "../least_squares.hpp"
#include "../rounding.hpp"
#include "../small_network.hpp"
#include "all_topologies.hpp"
#include "averaging.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::strategies {
namespace {

constexpr auto kCombine = GossipOrder::combine_then_adapt, kAdapt = GossipOrder::adapt_then_combine;
constexpr auto kKeep = GossipMomentum::keep, kMix = GossipMomentum::mix;

StrategySettings gossip(const GossipSettings& settings) { return strategy_with({.kind = "gossip"}, settings); }

/// θ_r of each rank.
std::vector<std::vector<float>> replicas(const std::vector<Outcome>& ranks) {
  std::vector<std::vector<float>> all;
  for (const Outcome& rank : ranks) {
    const View own = rank.vectors.front().values.view();
    all.emplace_back(own.begin(), own.end());
  }
  return all;
}

/// Σ_r θ_r / P
std::vector<double> mean_of(const std::vector<std::vector<float>>& ranks) {
  std::vector<double> mean(ranks.front().size());
  for (const auto& own : ranks) {
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += static_cast<double>(own[i]) / static_cast<double>(ranks.size());
  }
  return mean;
}

/// √(Σ_r ‖θ_r − mean‖²)
double distance_of(const std::vector<std::vector<float>>& ranks) {
  const std::vector<double> mean = mean_of(ranks);
  double squares = 0;
  for (const auto& own : ranks) {
    for (std::size_t i = 0; i < mean.size(); ++i) squares += std::pow(static_cast<double>(own[i]) - mean[i], 2);
  }
  return std::sqrt(squares);
}

/// Ranks that stopped after a step, each at a θ_r of its own: `value(rank, i)` at the inputs and the bias.
std::vector<Outcome> scattered(const Examples& examples, Training training,
                               const std::function<float(std::size_t rank, std::size_t i)>& value) {
  training.stop_after = 1;
  auto stopped = train(examples, training);
  for (std::size_t rank = 0; rank < stopped.size(); ++rank) {
    const MutableView own = stopped[rank].vectors.front().values.view();
    for (std::size_t i = 0; i < 3; ++i) own[i] = value(rank, i);
    own[kBias] = value(rank, kBias);
  }
  return stopped;
}

/// A step without learning: what is left is the mixing.
std::vector<Outcome> step_at_rate_0(const Examples& examples, Training training, const std::vector<Outcome>& before) {
  training.resumed = &before;
  training.stop_after = before.front().records.back().step + 1;
  return train(examples, training);
}

Training without_learning(const StrategySettings& strategy, int ranks) {
  return {.model = least_squares(),
          .strategy = strategy,
          .optimizer = {.kind = "sgd", .learning_rate = 0},
          .ranks = ranks,
          .batch_size = 17,
          .epochs = 20};
}

Training training_of(const StrategySettings& strategy, int ranks, Index batch_size) {
  Training training{.model = small_network(true, "local"),
                    .strategy = strategy,
                    .optimizer = {.kind = "adam", .learning_rate = 0.02},
                    .ranks = ranks,
                    .batch_size = batch_size,
                    .epochs = 3};
  return training;
}

void check_same(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    CHECK(is_same(a[rank].parameters, b[rank].parameters));
    CHECK(is_same(a[rank].statistics, b[rank].statistics));
    for (std::size_t i = 0; i < a[rank].vectors.size(); ++i) {
      CHECK(is_same(a[rank].vectors[i].values.view(), b[rank].vectors[i].values.view()));
    }
    for (std::size_t i = 0; i < a[rank].optimizer_state.size(); ++i) {
      CHECK(is_same(a[rank].optimizer_state[i].values.view(), b[rank].optimizer_state[i].values.view()));
    }
  }
}

/// Features are zero, so that only the bias b learns: with rate 1/4 the step from b at a target t is (b − t) / 2.
Training targets_alone(const GossipSettings& settings, const std::string& optimizer = "") {
  Training training{.model = least_squares(),
                    .strategy = gossip(settings),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.25},
                    .ranks = 2,
                    .batch_size = 2,
                    .shuffle = false};
  training.optimizer = optim::with(training.optimizer, optimizer);
  return training;
}

Examples targets(const std::vector<float>& values) {
  return {.shape = {}, .features = std::vector<float>(values.size()), .targets = values};
}

}  // namespace

TEST_CASE("two ranks mix and step in the order of the setting", "[gossip]") {
  // Targets 8 on rank 0, 0 on rank 1; b = 0 at first. Combined first, the gradient is that of the rank's own b:
  //   (4, 0);  their mean is 2: (2 − (4 − 8)/2, 2 − (0 − 0)/2) = (4, 2)
  const auto combined = train(targets({8, 0, 8, 0}), targets_alone({.topology = Topology::ring, .order = kCombine}));
  CHECK(replicas(combined)[0][kBias] == 4);
  CHECK(replicas(combined)[1][kBias] == 2);
  CHECK(combined[0].parameters[kBias] == 3);
  CHECK(ranks_agree(combined));
  // Adapted first: (4, 0) → 2;  (2 + 3, 2 − 1) → 3.
  const auto adapted = train(targets({8, 0, 8, 0}), targets_alone({.topology = Topology::ring, .order = kAdapt}));
  CHECK(replicas(adapted)[0][kBias] == 3);
  CHECK(replicas(adapted)[1][kBias] == 3);
  CHECK(adapted[0].trajectory[0][kBias] == 2);
  // An exchange in every second step only: (4, 0);  (4 + 2, 0) → 3.
  const auto rarely =
      train(targets({8, 0, 8, 0, 8, 0}), targets_alone({.topology = Topology::ring, .order = kAdapt, .period = 2}));
  CHECK(rarely[0].trajectory[1][kBias] == 3);
  CHECK(rarely[0].counters.get<GossipCounters>().sent_bytes == 4 * 32);  // θ with its padding, once in three steps
  CHECK(replicas(rarely)[0][kBias] == 3 + 2.5F);
}

TEST_CASE("the optimizer's vectors are kept, or mixed like the parameters", "[gossip]") {
  // μ = 1/2. Targets 8 and 0: v = (−16, 0), b = (4, 0) → 2.
  //   kept:   v = (−8 − 12, 0 + 4) = (−20, 4)
  //   mixed:  v = (−8, −8), then (−4 − 12, −4 + 4) = (−16, 0), mixed −8
  for (const GossipMomentum momentum : {kKeep, kMix}) {
    const auto ranks =
        train(targets({8, 0, 8, 0}),
              targets_alone({.topology = Topology::ring, .order = kAdapt, .momentum = momentum}, "momentum = 0.5"));
    CHECK(ranks[0].optimizer_state[0].values.view()[kBias] == (momentum == kKeep ? -20.0F : -8.0F));
    CHECK(ranks[1].optimizer_state[0].values.view()[kBias] == (momentum == kKeep ? 4.0F : -8.0F));
    CHECK(ranks[0].counters.get<GossipCounters>().sent_bytes == 2 * 4 * 32 * (momentum == kKeep ? 1 : 2));
  }
}

TEST_CASE("the complete graph, adapted first, is averaging with period 1 bit for bit", "[gossip]") {
  const Examples examples = small_images(24);
  for (const std::string keys : {"", "momentum = 0.5"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      INFO(ranks << " ranks " << keys);
      Training training = training_of({}, ranks, 12);  // the same for all: plain or with mixed momentum
      training.optimizer = optim::with({.kind = "sgd", .learning_rate = 0.1}, keys);
      training.strategy = strategy_with({.kind = "averaging"}, AveragingSettings{.period = 1});
      const auto averaged = train(examples, training);
      training.strategy =
          gossip({.topology = Topology::complete, .order = kAdapt, .momentum = keys.empty() ? kKeep : kMix});
      const auto gossiped = train(examples, training);
      for (const auto& own : replicas(gossiped)) CHECK(is_same(own, averaged[0].parameters));
      CHECK(gossiped[0].losses == averaged[0].losses);
      // The consensus of equal numbers: P products with 1/P and P − 1 sums are rounded.
      float largest = 0;
      for (const float value : averaged[0].parameters) largest = std::max(largest, std::abs(value));
      CHECK(largest_difference(gossiped[0].parameters, averaged[0].parameters) <=
            2 * ranks * kUnitRoundoff * static_cast<double>(largest));
      CHECK(ranks_agree(gossiped));
      // Running statistics are linear in what ranks add to them: averaged at the end, not after each of six steps.
      CHECK(largest_difference(gossiped[0].statistics, averaged[0].statistics) <= 6 * 8 * kUnitRoundoff * 4);
    }
  }
}

TEST_CASE("the complete graph, adapted first, equals allreduce with uneven parts, and with ranks without examples",
          "[gossip]") {
  const Examples examples = random_examples(23, {.channels = 3}, 0);
  Training training{.model = least_squares(),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.0625, .weight_decay = 0.125},
                    .epochs = 2};
  for (const Index batch_size : {3, 7}) {
    training.batch_size = batch_size;
    training.ranks = 1;
    training.strategy = {.kind = "allreduce"};
    const auto serial = train(examples, training);
    training.strategy = gossip({.topology = Topology::complete, .order = kAdapt});
    // As for averaging; the factor P n_r/n and the sum that begins with quotients by P take two of its spare terms.
    const double tolerance = rounding_of(serial[0], training, 3);
    CHECK(tolerance < 1e-3 * largest_difference(serial[0].trajectory.front(), serial[0].parameters));
    for (const int ranks : {1, 2, 3, 4, 5}) {
      INFO(ranks << " ranks, batches of " << batch_size);
      training.ranks = ranks;
      const auto gossiped = train(examples, training);
      CHECK(largest_difference(gossiped[0].parameters, serial[0].parameters) <= tolerance);
      CHECK(ranks_agree(gossiped));
    }
  }
}

TEST_CASE("exchanges keep the mean of the ranks, and contract by the second singular value", "[gossip]") {
  const Examples examples = random_examples(17, {.channels = 3}, 0);
  for (const Topology topology : kAllTopologies) {
    for (const GossipOrder order : {kCombine, kAdapt}) {
      for (const int ranks : {1, 2, 3, 4, 5}) {
        INFO("topology " << static_cast<int>(topology) << ", order " << static_cast<int>(order) << ", " << ranks);
        const Mixing mixing(topology, ranks);
        const Training training = without_learning(gossip({.topology = topology, .order = order}), ranks);
        auto stopped = scattered(examples, training, [](std::size_t rank, std::size_t i) {
          return RandomStream(3, Purpose::test, rank, static_cast<std::uint32_t>(i)).uniform(-1, 1);
        });
        const std::vector<double> mean = mean_of(replicas(stopped));
        const double distance = distance_of(replicas(stopped));
        // Values are at most 1. own + w Σ_d (theirs − own): d differences and d − 1 sums of at most 2d, w times that, w
        // itself and the last sum are rounded: less than (2d + 7) u. A mean of P by a sum: P u.
        const double rounding = (2 * 4 + 7) * kUnitRoundoff;
        // A period of exchanges, beginning with the one that is due after the first step.
        for (int round = 0; round < mixing.rounds(); ++round) stopped = step_at_rate_0(examples, training, stopped);
        const double made = mixing.rounds();
        const std::vector<double> after = mean_of(replicas(stopped));
        CHECK(largest_difference(after, mean) <= made * rounding);
        const double numbers = std::sqrt(4.0 * ranks);
        CHECK(distance_of(replicas(stopped)) <=
              mixing.second_singular_value() * distance + made * rounding * 2 * numbers);
        for (std::size_t i = 0; i < mean.size(); ++i) {
          CHECK(std::abs(static_cast<double>(stopped[0].parameters[i]) - after[i]) <= (ranks + 1) * kUnitRoundoff);
        }
        CHECK(ranks_agree(stopped));
      }
    }
  }
}

TEST_CASE("on 2^k ranks the exponential graph reaches the exact mean after k exchanges", "[gossip]") {
  const Examples examples = random_examples(17, {.channels = 3}, 0);
  for (const int ranks : {2, 4, 8}) {
    const Training training = without_learning(gossip({.topology = Topology::exponential}), ranks);
    // Multiples of P below 2^10: all sums and halves are exact. The mean of 0, P, …, (P − 1) P is P (P − 1) / 2.
    auto stopped = scattered(examples, training, [&](std::size_t rank, std::size_t i) {
      return static_cast<float>(static_cast<std::size_t>(ranks) * (rank + (i == kBias ? 100 : i)));
    });
    for (int distance = 1; distance < ranks; distance *= 2) {
      CHECK(distance_of(replicas(stopped)) > 0);
      stopped = step_at_rate_0(examples, training, stopped);
    }
    for (const auto& own : replicas(stopped))
      CHECK(own[kBias] == static_cast<float>(ranks * (ranks - 1)) / 2 + 100.0F * static_cast<float>(ranks));
    CHECK(distance_of(replicas(stopped)) == 0);
    CHECK(stopped[0].counters.get<GossipCounters>().consensus.difference_squares == 0);
  }
}

TEST_CASE("on one rank gossip is the serial run, bit for bit", "[gossip]") {
  const Examples examples = small_images();
  Training training = training_of({.kind = "serial"}, 1, 7);
  const auto serial = train(examples, training);
  for (const Topology topology : kAllTopologies) {
    for (const GossipOrder order : {kCombine, kAdapt}) {
      training.strategy = gossip({.topology = topology, .order = order, .momentum = kMix});
      const auto alone = train(examples, training);
      CHECK(is_same(alone[0].parameters, serial[0].parameters));
      CHECK(alone[0].statistics == serial[0].statistics);
      CHECK(alone[0].losses == serial[0].losses);
      CHECK(alone[0].counters.get<GossipCounters>().sent_bytes == 0);
    }
  }
}

TEST_CASE("a gossiping run that was stopped goes on bit for bit, whenever its model is looked at", "[gossip]") {
  const Examples examples = small_images();
  for (const Topology topology : kAllTopologies) {
    for (const GossipOrder order : {kCombine, kAdapt}) {
      const GossipMomentum momentum = order == kCombine ? kMix : kKeep;
      INFO("topology " << static_cast<int>(topology) << ", order " << static_cast<int>(order));
      Training training =
          training_of(gossip({.topology = topology, .order = order, .momentum = momentum, .period = 2}), 3, 7);
      training.due_every = 1000;
      const auto whole = train(examples, training);
      REQUIRE(whole[0].records.size() == 12);
      CHECK(!whole[0].records[3].consistent);
      CHECK(whole[0].records.back().consistent);
      const bool meet = topology == Topology::complete && order == kAdapt;  // in the last step, among others
      CHECK(is_same(replicas(whole)[0], replicas(whole)[1]) == meet);
      training.due_every = 1;
      check_same(train(examples, training), whole);
      training.stop_after = 5;  // between two exchanges, in the middle of an epoch
      const auto stopped = train(examples, training);
      REQUIRE(stopped[0].records.back().step == 5);
      training.stop_after = 1000;
      training.resumed = &stopped;
      check_same(train(examples, training), whole);
    }
  }
}

TEST_CASE("gossiping ranks learn, and the summary's distance is that of their parameters", "[gossip]") {
  const Examples examples = small_images();
  for (const Topology topology : kAllTopologies) {
    for (const GossipOrder order : {kCombine, kAdapt}) {
      INFO("topology " << static_cast<int>(topology) << ", order " << static_cast<int>(order));
      Training training = training_of(gossip({.topology = topology, .order = order}), 4, 7);
      training.epochs = 10;
      training.due_every = 40;
      const auto ranks = train(examples, training);
      const std::vector<double> losses = losses_over_ranks(ranks);
      CHECK(losses.back() < 0.8 * losses.front());
      CHECK(ranks_agree(ranks));
      double squares = 0;
      for (const Outcome& rank : ranks) squares += rank.counters.get<GossipCounters>().consensus.difference_squares;
      // The consensus is rounded to floats, by at most P + 1 of their roundings.
      const double rounding =
          5 * kUnitRoundoff * std::sqrt(4 * ranks[0].counters.get<GossipCounters>().consensus.mean_squares);
      CHECK(std::sqrt(squares) == Approx(distance_of(replicas(ranks))).margin(rounding));
    }
  }
}

TEST_CASE("long vectors travel in pieces", "[gossip]") {
  // 300 x 1000 weights: two pieces, of which the second is short.
  const Examples examples = random_examples(8, {.channels = 300}, 2);
  Training training{.model = network_of({nn::dense(1000), nn::dense(2)}),
                    .strategy = gossip({.topology = Topology::ring, .order = kAdapt}),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.05},
                    .ranks = 3,
                    .batch_size = 6,
                    .epochs = 1};
  const auto ring = train(examples, training);
  training.strategy = gossip({.topology = Topology::complete, .order = kAdapt});
  const auto complete = train(examples, training);
  // A ring of three is complete; the formulas differ by (2d + 7) u, d = 2, in each of two steps, and P u.
  float largest = 0;
  for (const float value : complete[0].parameters) largest = std::max(largest, std::abs(value));
  const double a_step = (2 * 2 + 7 + 3) * kUnitRoundoff * static_cast<double>(largest);
  CHECK(largest_difference(ring[0].parameters, complete[0].parameters) <= 4 * a_step);
  CHECK(ring[0].counters.get<GossipCounters>().sent_bytes == 2 * 2 * 4 * std::ssize(ring[0].parameters));
}

TEST_CASE("replicas that are pipelines gossip to the bits of single ranks", "[gossip][pipeline]") {
  for (const char* keys : {"order = 'combine_then_adapt', momentum = 'mix'", "order = 'adapt_then_combine'"}) {
    Training ranks = training_of(strategy_of("kind = 'gossip', topology = 'ring', " + std::string(keys)), 2, 8);
    ranks.micro_batches = 3;
    const auto expected = train(small_images(), ranks);
    Training hybrid = ranks;
    hybrid.replica.stages = 2;
    hybrid.ranks = 4;
    const auto trained = train(small_images(), hybrid);
    CHECK(is_same(trained[0].parameters, expected[0].parameters));
    CHECK(trained[0].statistics == expected[0].statistics);
    CHECK(ranks_agree(trained));
  }
}

TEST_CASE("strategies say which ranks need examples of every step", "[gossip][sharing]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const auto need = [&](const std::string& keys, bool statistics) {
    const models::ModelInputs inputs = {.features = {.channels = 1, .height = 6, .width = 6}, .classes = 3};
    const auto model = small_network(statistics)(inputs, {.backend = *backend, .reducer = reducer});
    return make_strategy(strategy_of(keys))->need_of_examples(*model);
  };
  for (const char* keys : {"kind = 'gossip'", "kind = 'gradient_sharing', staleness_bound = 0"}) {
    CHECK(need(keys, false).empty());
    CHECK(need(keys, true) == "never change their running statistics");
  }
  for (const char* keys : {"kind = 'gossip_async'", "kind = 'gradient_sharing'"}) {
    CHECK(need(keys, false) == "take steps from the others and train on nothing");
    CHECK(need(keys, true) == need(keys, false));
  }
  for (const char* keys : {"kind = 'allreduce'", "kind = 'gradient_sharing', staleness_bound = 1"}) {
    CHECK(need(keys, true).empty());
  }
}

}  // namespace unisono::strategies
