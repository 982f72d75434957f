#include "gossip_async.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "gossip/async_averages.hpp"
#include "least_squares.hpp"
#include "rounding.hpp"
#include "small_network.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::strategies {
namespace {

constexpr PairTopology kAll[] = {PairTopology::complete, PairTopology::ring};

StrategySettings gossip_async(const GossipAsyncSettings& settings = {}) {
  return strategy_with({.kind = "gossip_async"}, settings);
}

/// Pauses before each batch; draws of another seed are other pauses.
MakeSource pausing(const Examples& examples, std::uint64_t seed) {
  return [&examples, seed](const data::SourceOptions& options) {
    RandomStream random(seed, Purpose::test, static_cast<std::uint64_t>(options.rank));
    return std::make_unique<PausingSource>(examples, options, [random]() mutable {
      if (random.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
    });
  };
}

Training hesitant_gossip(const Examples& examples, const StrategySettings& strategy, int ranks, std::uint64_t seed) {
  return {.model = least_squares(0.5F),
          .strategy = strategy,
          .optimizer = {.kind = "sgd", .learning_rate = 0.01},
          .ranks = ranks,
          .batch_size = 6,
          .epochs = 4,
          .source = pausing(examples, seed),
          .inputs = models::ModelInputs{.features = examples.shape, .target_size = 1},
          .due_every = 1000};
}

Training networks(const Examples& examples, int ranks, std::uint64_t seed) {
  return {.model = small_network(true, "local"),
          .strategy = gossip_async(),
          .optimizer = {.kind = "adam", .learning_rate = 0.02},
          .ranks = ranks,
          .batch_size = 7,
          .epochs = 3,
          .source = pausing(examples, seed),
          .inputs = models::ModelInputs{.features = examples.shape, .classes = examples.classes},
          .due_every = 5};
}

View replica(const Outcome& rank) { return rank.vectors.front().values.view(); }

/// Σ_r θ_r[i] / P
double mean_of(const std::vector<Outcome>& ranks, std::size_t i) {
  double sum = 0;
  for (const Outcome& rank : ranks) sum += static_cast<double>(replica(rank)[i]);
  return sum / static_cast<double>(ranks.size());
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::int64_t exchanges_of(const std::vector<Outcome>& ranks) {
  std::int64_t all = 0;
  for (const Outcome& rank : ranks) all += rank.counters.get<GossipAsyncCounters>().exchanges;
  return all;
}

void check_same(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(is_same(a[rank].parameters, b[rank].parameters));
    CHECK(is_same(a[rank].statistics, b[rank].statistics));
    CHECK(a[rank].losses == b[rank].losses);
    for (std::size_t i = 0; i < a[rank].vectors.size(); ++i) {
      CHECK(is_same(a[rank].vectors[i].values.view(), b[rank].vectors[i].values.view()));
    }
    for (std::size_t i = 0; i < a[rank].optimizer_state.size(); ++i) {
      CHECK(is_same(a[rank].optimizer_state[i].values.view(), b[rank].optimizer_state[i].values.view()));
    }
    CHECK(a[rank].records.back().worker_steps == b[rank].records.back().worker_steps);
  }
}

EventRecord record_of(const std::vector<Outcome>& ranks) { return {.segments = ranks[0].events}; }

}  // namespace

TEST_CASE("even ranks exchange with odd ones, each as often as the others", "[gossip_async]") {
  CHECK(Pairs(PairTopology::complete, 1).partners_of(0).empty());
  CHECK(Pairs(PairTopology::complete, 5).partners_of(3) == std::vector{0, 2, 4});
  CHECK(Pairs(PairTopology::complete, 5).partners_of(4) == std::vector{1, 3});
  CHECK(Pairs(PairTopology::ring, 2).partners_of(0) == std::vector{1});
  CHECK(Pairs(PairTopology::ring, 6).partners_of(0) == std::vector{1, 5});
  CHECK(Pairs(PairTopology::ring, 6).partners_of(5) == std::vector{0, 4});
  CHECK(Pairs(PairTopology::ring, 5).partners_of(0) == std::vector{1});  // 4 is even, too
  CHECK(Pairs(PairTopology::ring, 5).partners_of(4) == std::vector{3});
  for (const PairTopology topology : kAll) {
    for (const int ranks : {2, 3, 6, 7}) {
      const Pairs pairs(topology, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for (const int partner : pairs.partners_of(rank)) {
          for (const int epoch : {0, 1, 2}) CHECK(Pairs::begins(rank, epoch) != Pairs::begins(partner, epoch));
          CHECK(std::ranges::count(pairs.partners_of(partner), rank) == 1);
        }
      }
    }
  }
  CHECK((Pairs::begins(0, 0) && !Pairs::begins(0, 1) && Pairs::begins(0, 2) && Pairs::begins(3, 1)));
  // 1200 draws of 3: 400 each, with a deviation of √(1200 · 1/3 · 2/3) = 16; five of them are 80.
  std::vector<int> drawn(6);
  for (int step = 0; step < 1200; ++step) ++drawn[static_cast<std::size_t>(Pairs(kAll[0], 6).partner(7, 2, step))];
  for (const int odd : {1, 3, 5}) CHECK(std::abs(drawn[static_cast<std::size_t>(odd)] - 400) < 80);
}

TEST_CASE("on one rank asynchronous gossip is the serial run, bit for bit", "[gossip_async]") {
  const Examples examples = small_images();
  for (const char* optimizer : {"sgd", "adam", "lamb"}) {
    Training training = networks(examples, 1, 3);
    training.optimizer = {.kind = optimizer, .learning_rate = 0.02, .clip_norm = 0.5};
    training.schedule = {.kind = optim::ScheduleKind::cosine};
    training.due_every = 1;
    training.strategy = {.kind = "serial"};
    const auto serial = train(examples, training);
    for (const std::int64_t due_every : {1, 5}) {
      training.due_every = due_every;
      training.strategy = gossip_async();
      const auto alone = train(examples, training);
      CHECK(is_same(alone[0].parameters, serial[0].parameters));
      CHECK(alone[0].statistics == serial[0].statistics);
      CHECK((due_every > 1 || alone[0].losses == serial[0].losses));
      CHECK(alone[0].counters.get<GossipAsyncCounters>().sent_bytes == 0);
    }
  }
}

TEST_CASE("two ranks that step once each end where the paper says, in either order", "[gossip_async]") {
  // Features are zero, so that only the bias b learns: with rate 1/4 the step for a target t is −(b − t)/2. Targets 8
  // on rank 0, 0 on rank 1; both read b = 0: steps of 4 and 0. Rank 0 averages before its own step, which adds 4:
  //   rank 1 has nothing to add, whenever it steps:  (0 + 0)/2 = 0 → (4, 0).  With targets 0 and 8: (0, 4) if rank 1
  //   steps after the average; (2, 2) if before.
  Training training{.model = least_squares(),
                    .strategy = gossip_async(),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.25},
                    .ranks = 2,
                    .batch_size = 2,
                    .shuffle = false,
                    .due_every = 1000};
  for (const bool first_learns : {true, false}) {
    const Examples examples{
        .shape = {}, .features = {0, 0}, .targets = first_learns ? std::vector<float>{8, 0} : std::vector<float>{0, 8}};
    // Rank 1 reads, averages and steps, or steps before it averages.
    for (const std::vector<ServerEvent>& order :
         {std::vector<ServerEvent>{{1, false}, {0, false}, {1, true}}, {{1, false}, {1, true}, {0, false}}}) {
      const std::vector<ServerEvent> of_first = {{0, false}, {1, false}, {0, true}};
      const EventRecord record{.segments = {{.first = 0, .last = 1, .orders = {encode(of_first), encode(order)}}}};
      training.replayed = &record;
      const auto ranks = train(examples, training);
      const bool stepped_before = order[1].is_push;
      const float b0 = first_learns ? 4.0F : stepped_before ? 2.0F : 0.0F;
      const float b1 = first_learns ? 0.0F : stepped_before ? 2.0F : 4.0F;
      CHECK(replica(ranks[0])[kBias] == b0);
      CHECK(replica(ranks[1])[kBias] == b1);
      CHECK(ranks[0].parameters[kBias] == 2);
      CHECK(ranks_agree(ranks));
      CHECK(ranks[0].counters.get<GossipAsyncCounters>().exchanges == 1);
      CHECK(ranks[1].counters.get<GossipAsyncCounters>().exchanges == 0);
      CHECK(ranks[1].counters.get<GossipAsyncCounters>().sent_bytes == 4 * 32);  // θ with its padding
      CHECK(ranks[0].counters.get<GossipAsyncCounters>().staleness.largest() == 1);
      CHECK(ranks[1].counters.get<GossipAsyncCounters>().staleness.largest() == (stepped_before ? 0 : 1));
    }
  }
}

TEST_CASE("averages of pairs keep the mean of the ranks, and bring them together", "[gossip_async]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const PairTopology topology : kAll) {
    for (const int ranks : {2, 3, 4, 5}) {
      INFO("topology " << static_cast<int>(topology) << ", " << ranks << " ranks");
      Training training = hesitant_gossip(examples, gossip_async({.topology = topology}), ranks, 7);
      training.model = least_squares();
      training.optimizer.learning_rate = 0;  // what is left is the averaging
      training.due_every = training.stop_after = 2;
      auto stopped = train(examples, training);
      for (std::size_t rank = 0; rank < stopped.size(); ++rank) {
        for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}, kBias}) {
          stopped[rank].vectors.front().values.view()[i] =
              RandomStream(3, Purpose::test, rank, static_cast<std::uint32_t>(i)).uniform(-1, 1);
        }
      }
      training.due_every = training.stop_after = 1000;
      training.resumed = &stopped;
      const auto ended = train(examples, training);
      REQUIRE(ended[0].records.back().step == 32);
      const auto exchanges = static_cast<double>(exchanges_of(ended));
      // Of 30 · P steps. How many depends on the threads' timing; two ranks agree after a single one.
      CHECK(exchanges >= std::min(15, 5 * (ranks - 1)));
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}, kBias}) {
        // Values are at most 1. In each average one sum of two is rounded, by at most 2u, and becomes that of the pair.
        CHECK(std::abs(mean_of(ended, i) - mean_of(stopped, i)) <= exchanges * 2 * kUnitRoundoff / ranks);
        double before = 0, after = 0;
        for (std::size_t rank = 0; rank < ended.size(); ++rank) {
          before = std::max(before, std::abs(static_cast<double>(replica(stopped[rank])[i]) - mean_of(stopped, i)));
          after = std::max(after, std::abs(static_cast<double>(replica(ended[rank])[i]) - mean_of(ended, i)));
        }
        CHECK(after < 0.5 * before);
        // The consensus: P products and P − 1 sums of at most P are rounded.
        CHECK(std::abs(static_cast<double>(ended[0].parameters[i]) - mean_of(ended, i)) <= 2 * ranks * kUnitRoundoff);
      }
      CHECK(ranks_agree(ended));
    }
  }
}

TEST_CASE("whatever the delays, every step is made once, and nobody waits forever", "[long][gossip_async]") {
  // Features are zero, targets so far away that the error stays the same float: every step has the gradient
  // 2 (b − target) = −2³¹ and, with the rate 2⁻⁴¹, adds 2⁻¹⁰ to its rank's bias.
  constexpr std::int64_t kExampleCount = 120;  // a multiple of 2, 3, 4 and 5, which are the examples of a step
  const Examples examples{.shape = {},
                          .features = std::vector<float>(kExampleCount),
                          .targets = std::vector<float>(kExampleCount, 0x1p30F)};
  for (const PairTopology topology : kAll) {
    for (const int ranks : {2, 3, 4, 5}) {
      for (const std::uint64_t seed : {1, 2}) {
        for (const std::int64_t period : {1, 3}) {
          INFO("topology " << static_cast<int>(topology) << ", " << ranks << " ranks, period " << period);
          const auto counts = train(examples, {.model = least_squares(),
                                               .strategy = gossip_async({.topology = topology, .period = period}),
                                               .optimizer = {.kind = "sgd", .learning_rate = 0x1p-41},
                                               .ranks = ranks,
                                               .batch_size = ranks,
                                               .epochs = 4,
                                               .source = pausing(examples, seed),
                                               .inputs = models::ModelInputs{.features = {}, .target_size = 1},
                                               .due_every = 17});
          const StepRecord& last = counts[0].records.back();
          CHECK(sum(last.worker_steps) == ranks * last.step);
          CHECK(last.worker_steps == counts[0].counters.get<GossipAsyncCounters>().rank_steps);
          std::int64_t events = 0, exchanges = 0, begun = 0;
          std::vector<std::int64_t> own_steps(static_cast<std::size_t>(ranks));
          for (const RecordedSegment& segment : counts[0].events) {
            const std::int64_t epoch = segment.first / (kExampleCount / ranks);
            std::int64_t steps = 0;
            for (int rank = 0; rank < ranks; ++rank) {
              for (const ServerEvent& event : decode(segment.orders[static_cast<std::size_t>(rank)])) {
                events += 1;
                if (event.worker != rank) exchanges += 1;
                if (!event.is_push) continue;
                steps += 1;
                const std::int64_t own = ++own_steps[static_cast<std::size_t>(rank)];
                if (Pairs::begins(rank, epoch) && own % period == 0) begun += 1;
              }
            }
            CHECK(steps == ranks * (segment.last - segment.first));
          }
          CHECK(exchanges == 2 * exchanges_of(counts));
          CHECK(events == exchanges + 2 * ranks * last.step);
          CHECK(exchanges_of(counts) == begun);
          // Each average rounds the sum of two biases below 1/2, by at most 2⁻²⁵, and so does each step.
          const double most = static_cast<double>(begun + ranks * last.step) * 0x1p-25 / ranks;
          CHECK(std::abs(mean_of(counts, kBias) - 0x1p-10 * static_cast<double>(last.step)) <= most);
        }
      }
    }
  }
}

TEST_CASE("a slow rank makes fewer steps, and the others make more", "[gossip_async]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const int slow : {1, 2}) {  // one that answers, one that begins
    Training training = hesitant_gossip(examples, gossip_async(), 4, 7);
    training.batch_size = 8;
    training.source = [&examples, slow](const data::SourceOptions& options) {
      const auto pause = std::chrono::milliseconds(options.rank == slow ? 30 : 3);
      return std::make_unique<PausingSource>(examples, options, [pause] { std::this_thread::sleep_for(pause); });
    };
    const auto ranks = train(examples, training);
    const std::vector<std::int64_t>& steps = ranks[0].records.back().worker_steps;
    CHECK(sum(steps) == 4 * 24);
    // Ten times slower: 96 / 31 steps. A loaded machine slows the others down, too.
    CHECK(steps[static_cast<std::size_t>(slow)] < 96 / 8);
    Index seen = 0;
    for (const StepRecord& record : ranks[0].records) seen += record.global_size;
    CHECK(seen == 4 * 48);
  }
}

TEST_CASE("a recorded run is repeated bit for bit, each rank's own vectors included", "[gossip_async]") {
  const Examples examples = small_images();
  for (const int ranks : {2, 3, 4, 5}) {
    INFO(ranks << " ranks");
    const auto recorded = train(examples, networks(examples, ranks, 7));
    const auto other = train(examples, networks(examples, ranks, 8));  // with other pauses
    CHECK(!is_same(other[0].parameters, recorded[0].parameters));
    const EventRecord record = record_of(recorded);
    Training training = networks(examples, ranks, 8);
    training.replayed = &record;
    training.due_every = 1000;  // the record says where segments end
    training.strategy.replayed_workers = ranks;
    check_same(train(examples, training), recorded);
  }
}

TEST_CASE("a run that was stopped goes on bit for bit, as far as time does not decide", "[gossip_async]") {
  const Examples examples = small_images();
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    Training training = networks(examples, ranks, 7);
    training.stop_after = 5;
    auto stopped = train(examples, training);
    REQUIRE(stopped[0].records.back().step == 5);
    for (Outcome& rank : stopped) rank.optimizer_steps = stopped[0].optimizer_steps;  // as in a checkpoint
    training.stop_after = 1000;
    training.resumed = &stopped;
    const auto resumed = train(examples, training);
    const std::vector<std::int64_t>& before = stopped[0].records.back().worker_steps;
    const std::vector<std::int64_t>& after = resumed[0].records.back().worker_steps;
    CHECK(sum(before) == 5 * ranks);
    CHECK(sum(after) == 12 * ranks);
    for (std::size_t rank = 0; rank < before.size(); ++rank) CHECK(after[rank] >= before[rank]);
    // Both records together are those of one run, which was not stopped.
    EventRecord record = record_of(stopped);
    record.segments.insert(record.segments.end(), resumed[0].events.begin(), resumed[0].events.end());
    training.resumed = nullptr;
    training.replayed = &record;
    const auto whole = train(examples, training);
    for (std::size_t rank = 0; rank < whole.size(); ++rank) {
      CHECK(is_same(whole[rank].parameters, resumed[rank].parameters));
      CHECK(is_same(whole[rank].statistics, resumed[rank].statistics));
      CHECK(is_same(replica(whole[rank]), replica(resumed[rank])));
    }
  }
}

TEST_CASE("asynchronous ranks learn, and the summary's distance is that of their parameters", "[gossip_async]") {
  const Examples examples = small_images();
  for (const int ranks : {2, 4, 5}) {
    INFO(ranks << " ranks");
    Training training = networks(examples, ranks, 7);
    training.epochs = 10;
    training.due_every = 8;
    const auto trained = train(examples, training);
    const std::vector<double> losses = losses_over_ranks(trained);
    CHECK(losses.back() < 0.8 * losses.front());
    CHECK(ranks_agree(trained));
    double squares = 0, own = 0;
    std::int64_t steps = 0;
    for (const Outcome& rank : trained) {
      squares += rank.counters.get<GossipAsyncCounters>().consensus.difference_squares;
      for (std::size_t i = 0; i < replica(rank).size(); ++i) {
        own += std::pow(static_cast<double>(replica(rank)[i]) - mean_of(trained, i), 2);
      }
      steps += rank.counters.get<GossipAsyncCounters>().staleness.total();
    }
    // The consensus is rounded to floats, by at most P + 1 of their roundings.
    const double rounding = (ranks + 1) * kUnitRoundoff *
                            std::sqrt(ranks * trained[0].counters.get<GossipAsyncCounters>().consensus.mean_squares);
    CHECK(std::sqrt(squares) == Approx(std::sqrt(own)).margin(rounding));
    CHECK(steps == ranks * 40);
  }
}

TEST_CASE("long vectors travel in pieces, between ranks that agree without a change", "[gossip_async]") {
  // 300 x 1000 weights: two pieces, of which the second is short.
  const Examples examples = random_examples(12, {.channels = 300}, 2);
  Training training{.model = network_of({nn::dense(1000), nn::dense(2)}),
                    .strategy = gossip_async(),
                    .optimizer = {.kind = "sgd", .learning_rate = 0},
                    .ranks = 3,
                    .batch_size = 6,
                    .epochs = 2,
                    .due_every = 1000};
  const auto still = train(examples, training);
  training.ranks = 1;
  const auto alone = train(examples, training);
  for (const Outcome& rank : still) CHECK(is_same(replica(rank), alone[0].parameters));
  std::int64_t sent = 0;
  for (const Outcome& rank : still) sent += rank.counters.get<GossipAsyncCounters>().sent_bytes;
  CHECK(exchanges_of(still) > 0);
  CHECK(sent == 2 * exchanges_of(still) * 4 * std::ssize(alone[0].parameters));
}

TEST_CASE("a failing rank ends the run of all", "[gossip_async]") {
  const Examples examples = small_images();
  for (const int failing : {0, 1, 2}) {
    Training training = networks(examples, 3, 7);
    training.source = [&examples, failing](const data::SourceOptions& options) {
      int left = options.rank == failing ? 3 : 1000;
      return std::make_unique<PausingSource>(examples, options, [left]() mutable {
        if (--left == 0) throw DataError("the disk is gone");
      });
    };
    CHECK_THROWS_WITH(train(examples, training), Catch::Contains("the disk is gone"));
  }
}

TEST_CASE("what asynchronous gossip cannot do is refused", "[gossip_async]") {
  const Examples examples = small_images();
  Training training = networks(examples, 3, 7);
  training.strategy.replayed_workers = 4;
  CHECK_THROWS_WITH(train(examples, training), Catch::Contains("recorded on 4 ranks") && Catch::Contains("on 3"));
  for (const char* wrong : {"kind = 'gossip_async', topology = 'grid'", "kind = 'gossip_async', period = 0",
                            "kind = 'gossip_async', momentum = 'mix'", "kind = 'gossip_async', servers = 1"}) {
    INFO(wrong);
    CHECK_THROWS_AS(strategy_of(wrong), ConfigError);
  }
}

}  // namespace unisono::strategies
