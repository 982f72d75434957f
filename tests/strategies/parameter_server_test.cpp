#include "parameter_server.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "expect.hpp"
#include "least_squares.hpp"
#include "rounding.hpp"
#include "server/shard.hpp"
#include "server/wire.hpp"
#include "small_network.hpp"
#include "sparse_examples.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

StrategySettings server(Consistency consistency, std::int64_t servers = 0, std::int64_t staleness = 2) {
  return strategy_with({.kind = "parameter_server", .servers = servers},
                       ParameterServerSettings{.consistency = consistency, .staleness = staleness});
}

ParameterServerSettings& own(StrategySettings& settings) { return settings.own.of<ParameterServerSettings>(); }

/// Pauses now and then, for up to two milliseconds.
std::unique_ptr<data::BatchSource> hesitant_source(const Examples& examples, const data::SourceOptions& options,
                                                   std::uint64_t seed) {
  RandomStream random(seed, Purpose::test, static_cast<std::uint64_t>(options.rank));
  return std::make_unique<PausingSource>(examples, options, [random]() mutable {
    if (random.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
  });
}

Training hesitant_pushes(const Examples& examples, const StrategySettings& strategy, int ranks, std::uint64_t seed) {
  return {.model = least_squares(0.5F),
          .strategy = strategy,
          .optimizer = {.kind = "sgd", .learning_rate = 0.01},
          .ranks = ranks,
          .batch_size = 6,
          .epochs = 4,
          .source = [&examples,
                     seed](const data::SourceOptions& options) { return hesitant_source(examples, options, seed); },
          .inputs = models::ModelInputs{.features = examples.shape, .target_size = 1},
          .due_every = 1000};
}

/// The most steps of another worker that a pull missed of those that were made before its own step, over all servers.
std::int64_t most_missed(const std::vector<RecordedSegment>& segments, int workers, bool prefetch) {
  std::int64_t most = 0;
  for (const RecordedSegment& segment : segments) {
    for (const auto& bytes : segment.orders) {
      std::vector<std::int64_t> pulls(static_cast<std::size_t>(workers)), pushes(pulls);
      for (const ServerEvent& event : decode(bytes)) {
        const auto worker = static_cast<std::size_t>(event.worker);
        if (event.is_push) {
          ++pushes[worker];
          continue;
        }
        const std::int64_t step = pulls[worker]++;  // that reads
        EXPECT(prefetch || step == pushes[worker]);
        most = std::max(most, step - *std::min_element(pushes.begin(), pushes.end()));
      }
      for (const std::int64_t count : pushes) EXPECT(count == segment.last - segment.first);
    }
  }
  return most;
}

}  // namespace

TEST_CASE("one worker that pulls after its own push is the serial run, bit for bit", "[server]") {
  const Examples examples = small_images();
  for (const std::string optimizer : {"sgd", "adagrad", "adam", "lamb"}) {
    Training training{.model = small_network(true, "local"),
                      .strategy = {.kind = "serial"},
                      .optimizer = {.kind = optimizer, .learning_rate = 0.05, .clip_norm = 0.5},
                      .batch_size = 7,
                      .accumulate = 2,
                      .epochs = 3};
    const auto serial = train(examples, training);
    for (const Consistency consistency : {Consistency::asynchronous, Consistency::bounded, Consistency::synchronous}) {
      for (const int servers : {0, 1, 2}) {
        INFO(optimizer << ", " << static_cast<int>(consistency) << ", " << servers << " servers");
        training.strategy = server(consistency, servers);
        training.ranks = servers + 1;
        const auto served = train(examples, training);
        CHECK(served[0].parameters == serial[0].parameters);
        CHECK(served[0].statistics == serial[0].statistics);
        CHECK(served[0].trajectory == serial[0].trajectory);
        CHECK(served[0].optimizer_steps == serial[0].optimizer_steps);
        CHECK(ranks_agree(served));
        training.ranks = 1;
      }
    }
  }
}

TEST_CASE("… and for every model that is updated in place", "[server]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    const auto serial = train({}, one.training({.kind = "serial"}));
    for (const Consistency consistency : {Consistency::asynchronous, Consistency::bounded, Consistency::synchronous}) {
      for (const int servers : {0, 1, 3}) {
        INFO(one.name << ", " << static_cast<int>(consistency) << ", " << servers << " servers");
        Training training = one.training(server(consistency, servers));
        training.ranks = servers + 1;
        const auto served = train({}, training);
        CHECK(served[0].trajectory == serial[0].trajectory);
        CHECK(ranks_agree(served));
      }
    }
  }
}

TEST_CASE("synchronous workers make what allreduce makes", "[server]") {
  const Examples examples = random_examples(23, {.channels = 3}, 0);
  Training training{.model = least_squares(),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.0625, .weight_decay = 0.125},
                    .batch_size = 7,
                    .epochs = 2};
  const auto serial = train(examples, training);
  const double tolerance = rounding_of(serial[0], training, 3);
  CHECK(tolerance < 1e-3 * largest_difference(serial[0].trajectory.front(), serial[0].parameters));
  for (const int workers : {1, 2, 3, 4}) {
    for (const int servers : {0, 1, 2}) {
      INFO(workers << " workers, " << servers << " servers");
      training.strategy = server(Consistency::synchronous, servers);
      training.ranks = workers + servers;
      const auto served = train(examples, training);
      CHECK(largest_difference(served[0].parameters, serial[0].parameters) <= tolerance);
      CHECK(ranks_agree(served));
    }
  }
}

TEST_CASE("a bounded read contains every step of all workers but the last few", "[server]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const bool prefetch : {false, true}) {
    for (const int staleness : {0, 1, 4}) {
      INFO("staleness " << staleness << (prefetch ? ", pulled ahead" : ""));
      StrategySettings strategy = server(Consistency::bounded, 2, staleness);
      own(strategy).prefetch = prefetch;
      const auto ranks = train(examples, hesitant_pushes(examples, strategy, 5, 7));
      REQUIRE(!ranks[0].events.empty());
      CHECK(most_missed(ranks[0].events, 3, prefetch) <= staleness);
      CHECK(ranks_agree(ranks));
    }
  }
}

TEST_CASE("without a bound a slow worker is left behind, and the others make its steps", "[server]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  Training training = hesitant_pushes(examples, server(Consistency::asynchronous, 1), 4, 7);
  training.source = [&examples](const data::SourceOptions& options) { return hesitant_source(examples, options, 7); };
  const auto ranks = train(examples, training);
  const std::vector<std::int64_t>& steps = ranks[0].records.back().worker_steps;
  CHECK(std::accumulate(steps.begin(), steps.end(), std::int64_t{0}) == 3 * 32);
  Index seen = 0;
  for (const StepRecord& record : ranks[0].records) seen += record.global_size;
  CHECK(seen == 4 * 48);
}

TEST_CASE("no push is lost or applied twice", "[server]") {
  // Features are zero, targets so far away that the error stays the same float: every push adds the same number to the
  // bias, g = 2 (b − target) = −2³¹, rate 2⁻³¹ · 2⁻¹⁰.
  constexpr std::int64_t kExamples = 96;
  const Examples examples{
      .shape = {}, .features = std::vector<float>(kExamples), .targets = std::vector<float>(kExamples, 0x1p30F)};
  for (const Consistency consistency : {Consistency::asynchronous, Consistency::bounded}) {
    for (const int push_period : {1, 3}) {
      for (const bool prefetch : {false, true}) {
        INFO(static_cast<int>(consistency) << ", pushes after " << push_period << " steps");
        StrategySettings strategy = server(consistency, 2, 4);
        own(strategy).push_period = push_period;
        own(strategy).prefetch = prefetch;
        const auto ranks = train(examples, {.model = least_squares(),
                                            .strategy = strategy,
                                            .optimizer = {.kind = "sgd", .learning_rate = 0x1p-41},
                                            .ranks = 6,
                                            .batch_size = 4,
                                            .epochs = 3,
                                            .due_every = 7});
        CHECK(ranks[0].parameters[16] == 3 * kExamples * 0x1p-10F);
      }
    }
  }
}

TEST_CASE("a recorded run is repeated bit for bit", "[server]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const Consistency consistency : {Consistency::asynchronous, Consistency::bounded}) {
    StrategySettings strategy = server(consistency, 2, 2);
    own(strategy).prefetch = true;
    Training training = hesitant_pushes(examples, strategy, 5, 7);
    training.due_every = 5;
    const auto recorded = train(examples, training);
    const EventRecord record{.segments = recorded[0].events};
    training = hesitant_pushes(examples, strategy, 5, 8);  // with other pauses
    const auto other = train(examples, training);
    CHECK(other[0].parameters != recorded[0].parameters);
    training.replayed = &record;
    training.strategy.replayed_workers = 3;
    training.strategy.replayed_servers = 2;
    for (const int ranks : {1, 2, 3, 7}) {
      INFO("on " << ranks << " ranks");
      training.ranks = ranks;
      const auto repeated = train(examples, training);
      CHECK(repeated[0].parameters == recorded[0].parameters);
      CHECK(repeated[0].statistics == recorded[0].statistics);
      CHECK(ranks_agree(repeated));
    }
  }
}

TEST_CASE("… and so are runs of models that are updated in place", "[server]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    Training training = one.training(server(Consistency::asynchronous, 2));
    training.ranks = 5;
    training.batch_size = 6;
    training.due_every = 1000;
    const auto recorded = train({}, training);
    const EventRecord record{.segments = recorded[0].events};
    training.replayed = &record;
    training.strategy.replayed_workers = 3;
    training.strategy.replayed_servers = 2;
    for (const int ranks : {1, 3}) {
      INFO(one.name << " on " << ranks << " ranks");
      training.ranks = ranks;
      CHECK(train({}, training)[0].parameters == recorded[0].parameters);
    }
  }
}

TEST_CASE("a resumed run may have other workers and servers", "[server]") {
  const Examples examples = small_images();
  Training training{.model = small_network(true, "local"),
                    .strategy = server(Consistency::bounded, 1, 0),
                    .optimizer = {.kind = "adam", .learning_rate = 0.02},
                    .ranks = 2,
                    .batch_size = 7,
                    .epochs = 4};
  const auto whole = train(examples, training);
  training.stop_after = 4;
  const auto stopped = train(examples, training);
  REQUIRE(stopped[0].records.back().step == 4);
  training.stop_after = 1000;
  training.resumed = &stopped;
  for (const int servers : {0, 1, 2}) {  // of one worker, each of which ends like the whole run
    INFO(servers << " servers");
    training.strategy.servers = servers;
    training.ranks = servers + 1;
    const auto resumed = train(examples, training);
    CHECK(resumed[0].parameters == whole[0].parameters);
    CHECK(resumed[0].statistics == whole[0].statistics);
  }
  training.strategy.servers = 1;
  training.ranks = 3;
  const auto more = train(examples, training);
  CHECK(more[0].records.back().step == whole[0].records.back().step);
  CHECK(ranks_agree(more));
}

TEST_CASE("workers that were at different steps go on from there", "[server]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  Training training = hesitant_pushes(examples, server(Consistency::asynchronous, 1), 4, 7);
  training.due_every = 8;
  training.stop_after = 16;
  const auto stopped = train(examples, training);
  training.stop_after = 1000;
  training.resumed = &stopped;
  const auto resumed = train(examples, training);
  const std::vector<std::int64_t>& before = stopped[0].records.back().worker_steps;
  const std::vector<std::int64_t>& after = resumed[0].records.back().worker_steps;
  CHECK(std::accumulate(before.begin(), before.end(), std::int64_t{0}) == 3 * 16);
  CHECK(std::accumulate(after.begin(), after.end(), std::int64_t{0}) == 3 * 32);
  for (std::size_t worker = 0; worker < 3; ++worker) CHECK(after[worker] >= before[worker]);
}

TEST_CASE("one worker alone makes a run's first steps", "[server]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const Consistency consistency : {Consistency::asynchronous, Consistency::bounded, Consistency::synchronous}) {
    StrategySettings strategy = server(consistency, 1);
    own(strategy).warmup_steps = 5;
    Training training = hesitant_pushes(examples, strategy, 4, 7);
    const auto ranks = train(examples, training);
    REQUIRE(ranks[0].records.front().step == 5);
    CHECK(ranks[0].records.front().worker_steps == std::vector<std::int64_t>{15, 0, 0});
    CHECK(ranks[0].records.back().step == 32);
    CHECK(ranks_agree(ranks));
  }
}

TEST_CASE("between pulls a worker goes on by itself, and pushes the sum of its gradients", "[server]") {
  // Plain SGD at a power of two: what a lone worker does between pulls is what the server then does at once.
  const Examples examples = random_examples(24, {.channels = 3}, 0);
  Training training{.model = least_squares(),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.0625},
                    .batch_size = 4,
                    .epochs = 2,
                    .due_every = 1000};
  training.strategy = {.kind = "serial"};
  const auto serial = train(examples, training);
  const double tolerance = rounding_of(serial[0], training, 3);
  training.strategy = server(Consistency::asynchronous);
  own(training.strategy).pull_period = own(training.strategy).push_period = 3;
  const auto served = train(examples, training);
  CHECK(largest_difference(served[0].parameters, serial[0].parameters) <= tolerance);
}

TEST_CASE("a stale gradient is made less of, or corrected, as the settings say", "[server]") {
  // θ = 0, g = 1 and 2; the second one was read when the first one had not been applied.
  struct Applied {
    float after_first, after_second;
  };
  const auto apply = [](StaleGradients stale) {
    const auto backend = kernels::make_cpu_backend(1);
    ParameterLayout layout;
    layout.add({.name = "w", .shape = {16}});
    std::vector<float> theta(16, 0.0F), read(theta), first(16, 1.0F), second(16, 2.0F);
    const auto shard = make_gradient_shard(served_holding(layout, {0, 16}),
                                           optim::make_optimizer({.kind = "sgd", .learning_rate = 1}, layout, *backend),
                                           {0, 16}, {theta, {}}, stale);
    const Question question{.ask = Ask::push, .examples = 1, .rate = 0.5};
    shard->apply({.question = &question, .values = first, .read = read, .staleness = 0});
    Applied applied{shard->values()[0], 0};
    shard->apply({.question = &question, .values = second, .read = read, .staleness = 4});
    applied.after_second = shard->values()[0];
    return applied;
  };
  CHECK(apply({}).after_first == -0.5F);
  CHECK(apply({}).after_second == -1.5F);
  CHECK(apply({.divide_rate = true}).after_first == -0.5F);
  CHECK(apply({.divide_rate = true}).after_second == -0.75F);  // a quarter of the rate
  // g + λ g² (θ − θ_read) = 2 + 1/4 · 4 · (−1/2) = 3/2
  CHECK(apply({.delay_compensation = 0.25}).after_second == -1.25F);
}

TEST_CASE("every rank works or serves, and the first one works", "[server]") {
  for (const int ranks : {1, 2, 3, 4, 7, 16}) {
    for (int servers = 0; servers < ranks; ++servers) {
      INFO(servers << " servers of " << ranks << " ranks");
      const Roles roles = Roles::of_ranks(ranks, servers);
      CHECK(roles.workers() == ranks - servers);
      CHECK(roles.servers() == (servers == 0 ? ranks : servers));
      CHECK(roles.rank_of_worker(0) == 0);
      for (int rank = 0; rank < ranks; ++rank) {
        const bool works = !roles.workers_of(rank).empty(), serves = !roles.servers_of(rank).empty();
        CHECK((servers == 0 ? works && serves : works != serves));
        for (const int worker : roles.workers_of(rank)) CHECK(roles.rank_of_worker(worker) == rank);
        for (const int server : roles.servers_of(rank)) CHECK(roles.rank_of_server(server) == rank);
      }
      for (int worker = 0; worker < roles.workers(); ++worker)
        CHECK(roles.workers_of(roles.rank_of_worker(worker)) == std::vector{worker});
    }
  }
  const Roles dealt = Roles::dealt(2, 3, 2);
  CHECK(dealt.workers_of(0) == std::vector{0, 2});
  CHECK(dealt.servers_of(1) == std::vector{0});
  CHECK(dealt.place_of_worker(2) == 1);
}

TEST_CASE("shards cover θ, and end where they must", "[server]") {
  ParameterLayout layout;
  for (const Index size : {100, 7, 300, 20, 1000}) layout.add({.name = "b" + std::to_string(size), .shape = {size}});
  for (const int shards : {1, 2, 3, 5, 9}) {
    for (const Cut cut : {Cut::lines, Cut::blocks}) {
      const std::vector<comm::Slice> places = cut_into_shards(layout, shards, cut);
      REQUIRE(std::ssize(places) == shards);
      CHECK(places.front().first == 0);
      CHECK(places.back().last == layout.size());
      for (std::size_t i = 1; i < places.size(); ++i) {
        CHECK(places[i].first == places[i - 1].last);
        const bool at_block = std::any_of(layout.blocks().begin(), layout.blocks().end(),
                                          [&](const Block& block) { return block.offset == places[i].first; });
        CHECK((cut == Cut::lines || at_block || places[i].first == layout.size()));
        CHECK(places[i].first % kLineFloats == 0);
      }
    }
  }
  const std::vector<models::RowSpace> spaces = {{"a", 0, 48, 10}, {"b", 512, 16, 100}};
  for (const comm::Slice& place : cut_between_rows(2112, spaces, 4)) {
    if (place.first < 480) CHECK(place.first % 48 == 0);
    const RowsInShard rows(2112, spaces, place);
    Index floats = 0;
    std::vector<std::uint32_t> all(static_cast<std::size_t>(rows.count()));
    std::iota(all.begin(), all.end(), 0U);
    rows.for_each(all, [&](Index offset, Index count) {
      CHECK((offset >= place.first && offset + count <= place.last));
      floats += count;
    });
    CHECK(floats == place.last - place.first);
  }
}

TEST_CASE("events are encoded in a byte each, or more for many workers", "[server]") {
  std::vector<ServerEvent> events;
  for (const int worker : {0, 1, 63, 64, 8191, 8192, 1 << 20}) {
    for (const bool push : {false, true}) events.push_back({worker, push});
  }
  CHECK(decode(encode(events)) == events);
  CHECK(encode(std::span(events).first(6)).size() == 6);
  auto bytes = encode(events);
  bytes.pop_back();
  CHECK_THROWS_AS(decode(bytes), std::out_of_range);
}

TEST_CASE("models that are updated in place learn from several workers' changes", "[server]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    INFO(one.name);
    Training training = one.training({.kind = "serial"});
    training.epochs = 20;
    training.batch_size = 1;
    const auto serial = train({}, training);
    training.strategy = server(Consistency::bounded, 1, 1);
    training.ranks = 4;
    training.batch_size = 3;  // one each, so that losses are taken of the same words
    training.due_every = 34;
    const auto served = train({}, training);
    CHECK(ranks_agree(served));
    const auto sum = [](const std::vector<double>& losses, std::size_t first, std::size_t last) {
      return std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(first),
                             losses.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
    };
    const std::vector<double> losses = losses_over_ranks(served);
    const double begin = sum(serial[0].losses, 0, 100), end = sum(serial[0].losses, 1900, 2000);
    REQUIRE(losses.size() == 20);
    // As far as the serial run comes in twenty epochs, give or take half of the way.
    CHECK(losses.back() <= end + 0.5 * (begin - end));
  }
}

TEST_CASE("statistics become the mean of those of the workers that pushed, as many as there were", "[server]") {
  const auto backend = kernels::make_cpu_backend(1);
  ParameterLayout layout;
  layout.add({.name = "w", .shape = {16}});
  std::vector<float> theta(16), statistics = {8}, gradient(16), one = {2}, other = {4};
  const auto shard = make_gradient_shard(served_holding(layout, {0, 16}),
                                         optim::make_optimizer({.kind = "sgd", .learning_rate = 1}, layout, *backend),
                                         {0, 16}, {theta, statistics}, {});
  const Question question{.ask = Ask::push, .examples = 1, .rate = 1, .weight = 0.5};  // of two workers
  const Push first{.question = &question, .values = gradient, .statistics = one};
  const Push second{.question = &question, .values = gradient, .statistics = other};
  shard->apply_together(std::array{first, second});
  CHECK(shard->statistics()[0] == 3);
  shard->apply_together(std::array{first});  // the other one is to begin later
  CHECK(shard->statistics()[0] == 2);
}

TEST_CASE("what a pull has read stays as it is, whatever is pushed meanwhile", "[server]") {
  const auto backend = kernels::make_cpu_backend(1);
  ParameterLayout layout;
  layout.add({.name = "w", .shape = {16}});
  std::vector<float> theta(16, 1.0F), ones(16, 1.0F);
  const auto shard = make_gradient_shard(served_holding(layout, {0, 16}),
                                         optim::make_optimizer({.kind = "sgd", .learning_rate = 1}, layout, *backend),
                                         {0, 16}, {theta, {}}, {});
  const Question question{.ask = Ask::push, .examples = 1, .rate = 1};
  const auto push = [&] { shard->apply({.question = &question, .values = ones}); };

  auto before = shard->read({});
  CHECK(before->data() == shard->values().data());  // no copy where none is needed
  push();
  const auto between = shard->read({});
  push();
  push();
  CHECK(before->data()[0] == 1);
  CHECK(between->data()[15] == 0);
  CHECK(shard->values()[0] == -2);

  // Buffers that nobody holds any more are used again: three are enough for two readers.
  const float* const released = before->data();
  before.reset();
  const auto last = shard->read({});
  push();
  CHECK(shard->values().data() == released);
  CHECK(last->data()[0] == -2);
  CHECK(shard->values()[0] == -3);
}

}  // namespace unisono::strategies
