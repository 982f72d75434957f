#include "gradient_sharing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "../least_squares.hpp"
#include "../rounding.hpp"
#include "../small_network.hpp"
#include "expect.hpp"
#include "sharing/relay.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/kernels/encoders.hpp"

namespace unisono::strategies {
namespace {

constexpr std::int64_t kFree = -1;

StrategySettings sharing(const GradientSharingSettings& settings) {
  return strategy_with({.kind = "gradient_sharing"}, settings);
}

View residual_of(const Outcome& rank) { return rank.vectors.front().values.view(); }

/// Pauses now and then, for up to two milliseconds.
std::unique_ptr<data::BatchSource> hesitant_source(const Examples& examples, const data::SourceOptions& options,
                                                   std::uint64_t seed) {
  RandomStream random(seed, Purpose::test, static_cast<std::uint64_t>(options.rank));
  return std::make_unique<PausingSource>(examples, options, [random]() mutable {
    if (random.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
  });
}

Training hesitant(const Examples& examples, const GradientSharingSettings& settings, int ranks, std::uint64_t seed) {
  return {.model = least_squares(0.5F),
          .strategy = sharing(settings),
          .optimizer = {.kind = "sgd", .learning_rate = 0.125},
          .ranks = ranks,
          .batch_size = 8,
          .epochs = 4,
          .source = [&examples,
                     seed](const data::SourceOptions& options) { return hesitant_source(examples, options, seed); },
          .inputs = models::ModelInputs{.features = examples.shape, .target_size = 1},
          .due_every = 1000};
}

/// Features are zero, and targets so far away that the error b − t stays the same float: with `update` as rate · 2³¹ a
/// step of the P ranks changes the bias b by that much, and each rank's part of it is update / P.
Training far_targets(const GradientSharingSettings& settings, int ranks, double update) {
  return {.model = least_squares(),
          .strategy = sharing(settings),
          .optimizer = {.kind = "sgd", .learning_rate = update * 0x1p-31},
          .ranks = ranks,
          .batch_size = ranks,
          .epochs = 3,
          .due_every = 7};
}

Examples far_examples(Index count) {
  return {.shape = {},
          .features = std::vector<float>(static_cast<std::size_t>(count)),
          .targets = std::vector<float>(static_cast<std::size_t>(count), 0x1p30F)};
}

/// θ of synchronous gradient sharing, written out: ranks one after the other.
std::vector<float> written_out(const Examples& examples, const Training& training) {
  const auto own = training.strategy.own.of<GradientSharingSettings>();
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const auto model =
      training.model({.features = examples.shape, .target_size = 1}, {.backend = *backend, .reducer = reducer});
  const auto n = static_cast<std::size_t>(model->layout().size());
  const double used = static_cast<double>(model->layout().parameters()) / static_cast<double>(n);
  const auto encoder =
      kernels::make_threshold_encoder({.threshold = static_cast<float>(own.threshold), .density = own.density * used});
  struct One {
    std::unique_ptr<MemorySource> source;
    std::unique_ptr<optim::Optimizer> optimizer;
    std::vector<float> residual;
    std::vector<std::byte> message;
  };
  std::vector<One> ranks;
  for (int rank = 0; rank < training.ranks; ++rank) {
    const data::SourceOptions options{.rank = rank,
                                      .size = training.ranks,
                                      .batch_size = training.batch_size,
                                      .sharing = data::MicroBatchSharing::own};
    ranks.push_back({std::make_unique<MemorySource>(examples, Dealing{.options = options, .shuffle = false}),
                     optim::make_optimizer(training.optimizer, model->layout(), *backend),
                     std::vector<float>(n),
                     {}});
  }
  std::vector<float> theta(n), gradient(n);
  const std::int64_t steps = training.epochs * ranks.front().source->steps_per_epoch();
  for (std::int64_t step = 0; step < steps; ++step) {
    for (One& rank : ranks) {
      const data::Batch batch = rank.source->next();
      kernels::LossSums sums;
      model->loss_and_gradient(batch, 1.0F / static_cast<float>(std::max<Index>(1, batch.rank_step_size)), {theta, {}},
                               {gradient}, sums);
      std::vector<float> next = theta;
      const double share = static_cast<double>(batch.rank_step_size) / static_cast<double>(batch.global_size);
      rank.optimizer->step(next, gradient, share * training.optimizer.learning_rate);
      for (std::size_t i = 0; i < n; ++i) rank.residual[i] += next[i] - theta[i];
      rank.message.resize(static_cast<std::size_t>(encoder->most_bytes(std::ssize(theta))));
      rank.message.resize(static_cast<std::size_t>(encoder->encode(rank.residual, {}, rank.message)));
    }
    for (const One& rank : ranks) encoder->add(rank.message, theta);
  }
  return theta;
}

std::vector<std::vector<int>> senders_of(const std::vector<RecordedSegment>& segments, int ranks) {
  std::vector<std::vector<int>> senders(static_cast<std::size_t>(ranks));
  for (const RecordedSegment& segment : segments) {
    REQUIRE(segment.orders.size() == senders.size());
    for (std::size_t rank = 0; rank < senders.size(); ++rank) {
      for (const ServerEvent& event : decode(segment.orders[rank])) senders[rank].push_back(event.worker);
    }
  }
  return senders;
}

/// The most updates of another rank that a rank's θ lacked of those that came before its own step.
std::int64_t most_missed(const std::vector<int>& senders, int rank, int ranks) {
  std::vector<std::int64_t> applied(static_cast<std::size_t>(ranks));
  std::int64_t most = 0;
  for (const int sender : senders) {
    const std::int64_t step = applied[static_cast<std::size_t>(rank)];
    for (std::size_t other = 0; sender == rank && other < applied.size(); ++other) {
      most = std::max(most, step - applied[other]);
    }
    ++applied[static_cast<std::size_t>(sender)];
  }
  return most;
}

}  // namespace

TEST_CASE("every update is applied once on every rank, whatever delays there are", "[long][sharing]") {
  // Each update is τ at the bias and nothing elsewhere, so that all of it is sent. Where ranks meet, b is the mean of
  // equal floats: at most P + 1 roundings. One update more or less would be a thousandth of b or more.
  constexpr double kTau = 0x1p-10;
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const std::int64_t bound : {kFree, std::int64_t{0}, std::int64_t{2}}) {
      INFO(ranks << " ranks, bound " << bound);
      const Examples examples = far_examples(30 * ranks);
      Training training = far_targets({.threshold = kTau, .staleness_bound = bound}, ranks, ranks * kTau);
      training.source = [&examples](const data::SourceOptions& options) {
        return hesitant_source(examples, options, 11);
      };
      const auto shared = train(examples, training);
      const std::int64_t steps = 3 * 30, updates = ranks * steps;
      const double expected = static_cast<double>(updates) * kTau;
      const double meetings = std::ceil(steps / 7.0);
      CHECK(std::abs(static_cast<double>(shared[0].parameters[kBias]) - expected) <=
            meetings * (ranks + 1) * kUnitRoundoff * expected);
      CHECK(ranks_agree(shared));
      std::int64_t own = 0;
      for (const Outcome& rank : shared) {
        own += rank.counters.get<SharingCounters>().updates;
        CHECK(rank.counters.get<SharingCounters>().staleness.total() ==
              updates - rank.counters.get<SharingCounters>().updates);
        for (const float left : residual_of(rank)) CHECK(left == 0);
      }
      CHECK(own == updates);
      const auto senders = senders_of(shared[0].events, ranks);
      for (const std::vector<int>& order : senders) CHECK(std::ssize(order) == updates);
    }
  }
}

TEST_CASE("where updates are plus or minus the threshold, ranks in step make what allreduce makes", "[sharing]") {
  constexpr double kTau = 0x1p-10;
  for (const int ranks : {1, 2, 4}) {
    const Examples examples = far_examples(30 * ranks);
    Training training = far_targets({.threshold = kTau, .staleness_bound = 0}, ranks, ranks * kTau);
    const auto shared = train(examples, training);
    training.strategy = {.kind = "allreduce"};
    const auto summed = train(examples, training);
    CHECK(summed[0].parameters[kBias] != 0);
    CHECK(is_same(shared[0].parameters, summed[0].parameters));
  }
}

TEST_CASE("ranks in step add up their encoded updates, and one rank is the serial run with a threshold", "[sharing]") {
  const Examples examples = random_examples(23, {.channels = 3}, 0);
  for (const std::string optimizer : {"sgd", "adam"}) {
    for (const double threshold : {0.0, 0.01}) {
      for (const int ranks : {1, 2, 3, 5}) {
        INFO(optimizer << ", threshold " << threshold << ", " << ranks << " ranks");
        Training training{.model = least_squares(),
                          .strategy = sharing({.threshold = threshold, .density = 0.05, .staleness_bound = 0}),
                          .optimizer = {.kind = optimizer, .learning_rate = 0.05, .weight_decay = 0.125},
                          .ranks = ranks,
                          .batch_size = 7,  // parts differ, and the last step of an epoch leaves ranks without examples
                          .epochs = 5,
                          .shuffle = false};
        const auto expected = written_out(examples, training);
        const auto shared = train(examples, training);
        CHECK(largest_difference(expected, std::vector<float>(expected.size())) > 0.02);
        CHECK(is_same(shared[0].parameters, expected));
        CHECK(ranks_agree(shared));
        CHECK(shared[0].counters.get<SharingCounters>().staleness.largest() == 0);
        training.due_every = 1000;  // whenever the model is looked at
        CHECK(is_same(train(examples, training)[0].parameters, expected));
      }
    }
  }
  Training alone{.model = least_squares(),
                 .strategy = sharing({.threshold = 0.01}),
                 .optimizer = {.kind = "adam", .learning_rate = 0.05},
                 .batch_size = 7,
                 .epochs = 5,
                 .shuffle = false};
  CHECK(is_same(train(examples, alone)[0].parameters, written_out(examples, alone)));
}

TEST_CASE("density is the share of parameters, without the unused floats between blocks", "[sharing]") {
  // Three weights and a bias lie in 32 floats.
  for (const auto& [density, sent] : {std::pair(0.5, 2), std::pair(0.75, 3), std::pair(1.0, 4)}) {
    const Training one_step{.model = least_squares(),
                            .strategy = sharing({.density = density}),
                            .optimizer = {.kind = "sgd", .learning_rate = 0.05},
                            .batch_size = 23,
                            .epochs = 1,
                            .shuffle = false};
    const auto theta = train(random_examples(23, {.channels = 3}, 0), one_step)[0].parameters;
    CHECK(std::ssize(theta) == 32);
    CHECK(std::ranges::count_if(theta, [](float value) { return value != 0; }) == sent);
  }
}

TEST_CASE("what was sent and what was not add up to all updates", "[sharing]") {
  // Each rank's update is 0.3 τ, so that most steps send nothing. θ + u, u and the residual are rounded in each step,
  // b once for each update that is applied, at a meeting P + 1 times: magnitudes are at most b, τ at the residual.
  constexpr double kTau = 0x1p-10;
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const GradientSharingSettings& settings :
         {GradientSharingSettings{.threshold = kTau}, GradientSharingSettings{.density = 0.01}}) {
      INFO(ranks << " ranks, threshold " << settings.threshold);
      const auto shared = train(far_examples(30 * ranks), far_targets(settings, ranks, 0.3 * kTau * ranks));
      const double updates = 3.0 * 30 * ranks, expected = updates * 0.3 * kTau;
      double left = 0, all = static_cast<double>(shared[0].parameters[kBias]);
      for (const Outcome& rank : shared) left += static_cast<double>(residual_of(rank)[kBias]);
      const double tolerance = (4 * updates + 13.0 * (ranks + 1)) * kUnitRoundoff * 2 * expected;
      CHECK(tolerance < 0.1 * kTau);
      CHECK(std::abs(all + left - expected) <= tolerance);
      CHECK((left != 0) == (settings.threshold > 0));  // the only value is the largest one, which density sends
    }
  }
}

TEST_CASE("after all updates ranks differ by the order of additions alone", "[sharing]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const int ranks : {2, 3, 4}) {
    const auto shared = train(examples, hesitant(examples, {.density = 0.1}, ranks, 7));
    double largest = 0;
    for (const float value : shared[0].parameters) largest = std::max(largest, std::abs(static_cast<double>(value)));
    REQUIRE(largest > 0.05);
    // Each of four numbers is a sum of as many terms as there are updates, whose partial sums are at most twice the
    // largest number, in orders that differ; and a mean of P.
    const double updates = 4 * 6 * ranks;
    const double apart = (2 * updates * 2 + ranks + 1) * kUnitRoundoff * largest;
    for (const Outcome& rank : shared) {
      CHECK(rank.counters.get<SharingCounters>().consensus.difference_squares <= 4 * apart * apart);
      CHECK(rank.counters.get<SharingCounters>().consensus.mean_squares > 0);
    }
    CHECK(ranks_agree(shared));
  }
}

TEST_CASE("with a bound, no rank is further ahead of another's updates", "[sharing]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const std::int64_t bound : {0, 1, 4}) {
    INFO("bound " << bound);
    constexpr int kRanks = 4;
    const auto shared = train(examples, hesitant(examples, {.density = 0.1, .staleness_bound = bound}, kRanks, 7));
    const auto senders = senders_of(shared[0].events, kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<int>& order = senders[static_cast<std::size_t>(rank)];
      CHECK(most_missed(order, rank, kRanks) <= bound);
      for (int sender = 0; sender < kRanks; ++sender) CHECK(std::ranges::count(order, sender) == 4 * 6);
    }
    CHECK(ranks_agree(shared));
  }
}

TEST_CASE("a recorded run is repeated bit for bit, by as many ranks", "[sharing]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  for (const std::int64_t bound : {kFree, std::int64_t{2}}) {
    INFO("bound " << bound);
    Training training = hesitant(examples, {.density = 0.1, .staleness_bound = bound}, 4, 7);
    training.optimizer = {.kind = "adam", .learning_rate = 0.02};
    training.due_every = 5;
    const auto recorded = train(examples, training);
    const EventRecord record{.segments = recorded[0].events};
    training.source = [&examples](const data::SourceOptions& options) {  // with other pauses
      return hesitant_source(examples, options, 8);
    };
    CHECK(!is_same(train(examples, training)[0].parameters, recorded[0].parameters));
    training.replayed = &record;
    training.strategy.replayed_workers = 4;
    const auto repeated = train(examples, training);
    CHECK(is_same(repeated[0].parameters, recorded[0].parameters));
    CHECK(repeated[0].statistics == recorded[0].statistics);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(is_same(residual_of(repeated[rank]), residual_of(recorded[rank])));
    }
    CHECK(ranks_agree(repeated));
    training.ranks = 3;
    CHECK_THROWS_WITH(train(examples, training), Catch::Contains("mpirun -n 4"));
  }
}

TEST_CASE("a run in step that was stopped goes on bit for bit, and so does a rank alone", "[sharing]") {
  const Examples examples = small_images();
  for (const int ranks : {1, 3}) {
    Training training{.model = small_network(true, "local"),
                      .strategy = sharing({.density = 0.1, .staleness_bound = ranks == 1 ? kFree : 0}),
                      .optimizer = {.kind = "adam", .learning_rate = 0.02},
                      .ranks = ranks,
                      .batch_size = 7,
                      .epochs = 4};
    const auto whole = train(examples, training);
    training.stop_after = 6;
    const auto stopped = train(examples, training);
    REQUIRE(stopped[0].records.back().step == 6);
    training.stop_after = 1000;
    training.resumed = &stopped;
    const auto resumed = train(examples, training);
    for (std::size_t rank = 0; rank < whole.size(); ++rank) {
      CHECK(is_same(resumed[rank].parameters, whole[rank].parameters));
      CHECK(is_same(residual_of(resumed[rank]), residual_of(whole[rank])));
      CHECK(resumed[rank].statistics == whole[rank].statistics);
    }
    training.ranks = ranks + 1;
    const auto more = train(examples, training);
    CHECK(more[0].records.back().step == whole[0].records.back().step);
    CHECK(ranks_agree(more));
  }
}

TEST_CASE("ranks that were at different steps go on from there", "[sharing]") {
  const Examples examples = random_examples(48, {.channels = 3}, 0);
  Training training = hesitant(examples, {.density = 0.1}, 3, 7);
  training.due_every = 8;
  training.stop_after = 8;
  const auto stopped = train(examples, training);
  training.stop_after = 1000;
  training.resumed = &stopped;
  const auto resumed = train(examples, training);
  const std::vector<std::int64_t>& before = stopped[0].records.back().worker_steps;
  const std::vector<std::int64_t>& after = resumed[0].records.back().worker_steps;
  CHECK(std::accumulate(before.begin(), before.end(), std::int64_t{0}) == 3 * 8);
  CHECK(std::accumulate(after.begin(), after.end(), std::int64_t{0}) == 3 * 24);
  for (std::size_t rank = 0; rank < 3; ++rank) CHECK(after[rank] >= before[rank]);
}

TEST_CASE("statistics become the mean of the ranks' own, by their examples", "[sharing]") {
  // Every step moves the statistic half of the way to the feature, which is the same for all: after k of the ranks'
  // own steps it is 1 − 2^−k of it, on a rank that has made none 0.
  Examples examples{.shape = {}, .features = std::vector<float>(24, 1.0F), .targets = std::vector<float>(24)};
  Training training = hesitant(examples, {.density = 0.5, .staleness_bound = 0}, 3, 7);
  training.batch_size = 6;
  training.epochs = 1;
  const auto shared = train(examples, training);
  CHECK(shared[0].records.size() == 1);
  // Three products and two sums of the mean are rounded.
  CHECK(std::abs(static_cast<double>(shared[0].statistics[0]) - (1 - 1.0 / 16)) <= 6 * kUnitRoundoff);
}

TEST_CASE("with one of four ranks three times slower, examples pass much faster than by allreduce", "[long][sharing]") {
  // By 3 + 1/3 to 4/3 it would be 2.5 times, less what the last step of the slow rank takes.
  const Examples examples = random_examples(96, {.channels = 3}, 0);
  const auto seconds_of = [&](const StrategySettings& strategy) {
    Training training = hesitant(examples, {}, 4, 7);
    training.strategy = strategy;
    training.epochs = 8;
    training.source = [&examples](const data::SourceOptions& options) {
      return std::make_unique<PausingSource>(examples, options, [slow = options.rank == 1] {
        std::this_thread::sleep_for(std::chrono::milliseconds(slow ? 30 : 10));
      });
    };
    const auto ranks = train(examples, training);
    Index seen = 0;
    for (const StepRecord& record : ranks[0].records) seen += record.global_size;
    CHECK(seen == 8 * 96);
    return ranks[0].total_seconds;
  };
  const double together = seconds_of({.kind = "allreduce"});
  CHECK(together / seconds_of(sharing({.density = 0.1})) >= 1.6);
}

TEST_CASE("a network learns from shared updates as it does from whole gradients", "[sharing]") {
  const Examples examples = small_images(48);
  Training training{.model = small_network(false),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.2},
                    .ranks = 3,
                    .batch_size = 12,
                    .epochs = 40,
                    .due_every = 4};
  training.strategy = {.kind = "allreduce"};
  const auto sum = [](const std::vector<double>& losses, std::size_t first, std::size_t last) {
    return std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(first),
                           losses.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
  };
  const std::vector<double> plain = losses_over_ranks(train(examples, training));
  const double begin = sum(plain, 0, 4), end = sum(plain, plain.size() - 4, plain.size());
  training.strategy = sharing({.density = 0.1});
  const auto shared = train(examples, training);
  // As far as allreduce comes, give or take half of the way.
  CHECK(losses_over_ranks(shared).back() <= end + 0.5 * (begin - end));
  std::int64_t sent = 0, whole = 0;
  for (const Outcome& rank : shared) {
    sent += rank.counters.get<SharingCounters>().sent_bytes;
    whole += rank.counters.get<SharingCounters>().plain_bytes;
  }
  CHECK(sent > 0);
  CHECK(sent < whole / 2);
}

}  // namespace unisono::strategies
