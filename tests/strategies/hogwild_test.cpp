#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "least_squares.hpp"
#include "small_network.hpp"
#include "sparse_examples.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

StrategySettings hogwild(std::int64_t threads, const std::string& locking = "none") {
  return strategy_of(fmt::format("kind = 'hogwild', threads = {}, locking = '{}'", threads, locking));
}

/// n rows with a single feature each, one of `features`, and the label 1.
struct CountedRows {
  CountedRows(std::int64_t n, std::uint32_t features) : targets(static_cast<std::size_t>(n), 1.0F) {
    for (std::int64_t i = 0; i < n; ++i) {
      columns.push_back(static_cast<std::uint32_t>(i) % features);
      offsets.push_back(columns.size());
    }
    set = data::LabelledRows{.rows = {.offsets = offsets, .columns = columns, .values = {}, .width = features},
                             .targets = targets};
  }

  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  std::vector<float> targets;
  data::ExampleSet set;
};

}  // namespace

TEST_CASE("lock-free training by one thread is the serial run, bit for bit, for every model", "[hogwild]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    INFO(one.name);
    const auto serial = train({}, one.training({.kind = "serial"}));
    REQUIRE(serial[0].records.size() == 12);
    REQUIRE(std::isfinite(serial[0].losses.back()));
    REQUIRE(serial[0].parameters != serial[0].trajectory.front());
    for (const std::string locking : {"none", "striped", "global"}) {
      INFO(locking);
      const auto alone = train({}, one.training(hogwild(1, locking)));
      CHECK(alone[0].trajectory == serial[0].trajectory);
    }
  }
}

TEST_CASE("… and for networks, whatever their optimizer keeps", "[hogwild]") {
  const Examples examples = small_images();
  for (const std::string optimizer : {"sgd", "adam"}) {
    Training training{.model = small_network(true, "local"),
                      .strategy = {.kind = "serial"},
                      .optimizer = {.kind = optimizer, .learning_rate = 0.05},
                      .batch_size = 7,
                      .accumulate = 2,
                      .epochs = 3};
    const auto serial = train(examples, training);
    for (const std::string locking : {"none", "striped", "global"}) {
      training.strategy = hogwild(1, locking);
      const auto alone = train(examples, training);
      CHECK(alone[0].parameters == serial[0].parameters);
      CHECK(alone[0].statistics == serial[0].statistics);
      CHECK(alone[0].records.size() == serial[0].records.size());
    }
  }
}

TEST_CASE("a run of one thread that was stopped goes on as if it had not been", "[hogwild]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    INFO(one.name);
    Training training = one.training(hogwild(1));
    const auto whole = train({}, training);
    training.stop_after = 8;
    const auto stopped = train({}, training);
    REQUIRE(stopped[0].records.back().step == 8);
    training.stop_after = 1'000'000;
    training.resumed = &stopped;
    CHECK(train({}, training)[0].parameters == whole[0].parameters);
  }
}

TEST_CASE("threads that lock lose no update", "[hogwild]") {
  // Hinge loss far below its margin: each example adds rate to its weight and to the bias, all exact in floats.
  constexpr std::int64_t kRows = 40000;
  constexpr float kRate = 0x1p-20F;
  const CountedRows rows(kRows, 2);
  InPlaceCase counting{.name = "counting"};
  counting.model.kind = "linear";
  counting.model.linear.loss = models::LinearLoss::hinge;
  counting.optimizer = {.kind = "sgd", .learning_rate = static_cast<double>(kRate)};
  counting.inputs = {.kind = data::SetKind::sparse, .features = {.channels = 2}, .classes = 2};
  counting.set = rows.set;
  counting.units = counting.examples = kRows;
  for (const std::string locking : {"striped", "global"}) {
    for (const int threads : {2, 4}) {
      INFO(locking << ", " << threads << " threads");
      Training training = counting.training(hogwild(threads, locking));
      training.batch_size = kRows;
      training.epochs = 1;
      const auto outcome = train({}, training);
      CHECK(outcome[0].parameters[0] == kRows / 2 * kRate);
      CHECK(outcome[0].parameters[1] == kRows / 2 * kRate);
      CHECK(outcome[0].parameters[16] == kRows * kRate);  // the bias
    }
  }
}

TEST_CASE("… nor do those that compute gradients", "[hogwild]") {
  // Features are zero, targets so far away that the error stays the same float, so that every step adds the same number
  // to the bias, once, whoever makes it: g = 2 (b − target) = −2³¹, rate 2⁻³¹ · 2⁻¹⁰.
  constexpr std::int64_t kExamples = 512;
  Examples examples{
      .shape = {}, .features = std::vector<float>(kExamples), .targets = std::vector<float>(kExamples, 0x1p30F)};
  Training training{.model = least_squares(),
                    .optimizer = {.kind = "sgd", .learning_rate = 0x1p-41},
                    .batch_size = 1,
                    .epochs = 2,
                    .shuffle = false};
  for (const std::string locking : {"striped", "global"}) {
    training.strategy = hogwild(4, locking);
    const auto outcome = train(examples, training);
    CHECK(outcome[0].parameters[16] == 2 * kExamples * 0x1p-10F);
  }
}

TEST_CASE("several threads without locks visit every example and learn", "[hogwild]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    if (one.model.linear.averaged) continue;  // refused: see below
    INFO(one.name);
    Training training = one.training(hogwild(3));
    training.epochs = 20;
    const auto outcome = train({}, training);
    Index seen = 0;
    for (const StepRecord& record : outcome[0].records) seen += record.global_size;
    CHECK(seen == 20 * 100);
    const auto serial = train({}, [&] {
      Training alone = training;
      alone.strategy = {.kind = "serial"};
      return alone;
    }());
    const auto last_epoch = [](const std::vector<double>& losses) {
      return std::accumulate(losses.end() - 6, losses.end(), 0.0);
    };
    // As far as the serial run comes in twenty epochs, give or take half of the way.
    const double begin = std::accumulate(serial[0].losses.begin(), serial[0].losses.begin() + 6, 0.0);
    const double end = last_epoch(serial[0].losses);
    REQUIRE(end < 0.9 * begin);  // there is something to learn
    CHECK(last_epoch(outcome[0].losses) <= end + 0.5 * std::abs(begin - end) + 1e-6 * begin);
  }
}

TEST_CASE("a mean of all updates is refused where threads may lose some", "[hogwild]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    if (!one.model.linear.averaged) continue;
    INFO(one.name);
    CHECK_THROWS_WITH(train({}, one.training(hogwild(3))),
                      Catch::Contains("model.averaged") && Catch::Contains("strategy.locking"));
    CHECK_NOTHROW(train({}, one.training(hogwild(1))));
    CHECK_NOTHROW(train({}, one.training(hogwild(3, "striped"))));
  }
}

TEST_CASE("ranks that average after every step hold one model", "[hogwild]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    INFO(one.name);
    for (const std::string kind : {"hogwild", "averaging"}) {
      const std::string locks = kind == "hogwild" && one.model.linear.averaged ? ", locking = 'striped'" : "";
      Training training = one.training(strategy_of("period = 1, kind = '" + kind + "'" + locks));
      training.ranks = 3;
      const auto ranks = train({}, training);
      CHECK(ranks_agree(ranks));
      CHECK(ranks[0].records.back().consistent);
    }
  }
}

TEST_CASE("strategies say before a run what they cannot train", "[strategies]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    INFO(one.name);
    const bool gradient = one.model.kind == "linear" && !one.model.linear.averaged;
    if (!gradient) {
      CHECK_THROWS_WITH(train({}, one.training({.kind = "allreduce"})), Catch::Contains("can train it: averaging"));
    }
    for (const auto& [setting, key] : std::initializer_list<std::pair<const char*, const char*>>{
             {"allreduce_epochs = 1", "allreduce_epochs"},
             {"outer.kind = 'nesterov'", "outer.kind"},
             {"node_period = 4", "node_period"},
             {"overlap = true, optimizer_state = 'keep'", "overlap"}}) {
      CHECK_THROWS_WITH(train({}, one.training(strategy_of("kind = 'averaging', " + std::string(setting)))),
                        Catch::Contains("strategy." + std::string(key) + ": this model is updated in place"));
    }
  }
}

TEST_CASE("the serial strategy is for one rank", "[serial]") {
  Training training{.model = least_squares(), .strategy = {.kind = "serial"}, .ranks = 2};
  const Examples examples = random_examples(8, {.channels = 3}, 0);
  CHECK_THROWS_WITH(train(examples, training), Catch::Contains("serial") && Catch::Contains("one rank"));
}

TEST_CASE("models without a gradient say which strategies can train them", "[serial]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    if (one.model.kind == "linear" && !one.model.linear.averaged) continue;
    INFO(one.name);
    CHECK_THROWS_WITH(train({}, one.training({.kind = "allreduce"})), Catch::Contains("serial"));
  }
}

namespace {

/// Rows of 4 features, with those that they are given as 1, and 1 for their answer.
struct HingeRows {
  HingeRows(std::uint32_t count, const std::function<std::vector<std::uint32_t>(std::uint32_t row)>& features_of)
      : targets(count, 1.0F) {
    for (std::uint32_t row = 0; row < count; ++row) {
      const std::vector<std::uint32_t> own = features_of(row);
      columns.insert(columns.end(), own.begin(), own.end());
      offsets.push_back(columns.size());
    }
  }

  InPlaceCase trial(float rate, bool bias) const {
    InPlaceCase one{.name = "hinge"};
    one.model.kind = "linear";
    one.model.linear.loss = models::LinearLoss::hinge;
    one.model.linear.bias = bias;
    one.optimizer = {.kind = "sgd", .learning_rate = static_cast<double>(rate)};
    one.inputs = {.kind = data::SetKind::sparse, .features = {.channels = 4}, .classes = 2};
    one.set = data::LabelledRows{.rows = {.offsets = offsets, .columns = columns, .values = {}, .width = 4},
                                 .targets = targets};
    one.units = one.examples = std::ssize(targets);
    return one;
  }

  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  std::vector<float> targets;
};

/// A feature of the rank's own, where each has every second row, and one that all have.
std::vector<std::uint32_t> own_and_shared(std::uint32_t row) { return {row % 2, 2U}; }

}  // namespace

TEST_CASE("a row that ranks changed becomes their mean, or the sum of their changes", "[averaging]") {
  // Hinge loss at θ = 0: each rank's only example adds the rate ¼ to its own feature, to the shared one and to the
  // bias.
  const HingeRows rows(2, own_and_shared);
  const InPlaceCase one = rows.trial(0.25F, /*bias=*/true);
  for (const std::string kind : {"averaging", "hogwild"}) {
    for (const std::string merge : {"mean", "sum", "auto"}) {
      INFO(kind << ", " << merge);
      Training training = one.training(strategy_of("period = 1, kind = '" + kind + "', merge = '" + merge + "'"));
      training.batch_size = 2;
      training.epochs = 1;
      training.ranks = 2;
      const auto ranks = train({}, training);
      CHECK(ranks_agree(ranks));
      const std::vector<float>& theta = ranks[0].parameters;
      CHECK(theta[0] == 0.25F);  // what one rank alone changed stays as it made it
      CHECK(theta[1] == 0.25F);
      CHECK(theta[2] == (merge == "sum" ? 0.5F : 0.25F));
      CHECK(theta[3] == 0);
      CHECK(theta[16] == 0.25F);  // the bias is no row
      // Marks of 4 features, 3 changed weights, padding and bias: 4-byte floats.
      CHECK(ranks[0].counters.get<AveragedCounters>().bytes == 4 * (4 + 3 + 12 + 16));
    }
  }
}

TEST_CASE("rows that were touched often enough are merged before the average", "[averaging]") {
  // As above, six steps of a row each: a rank touches its own feature once a step, and both the shared one.
  constexpr float kRate = 0x1p-6F;
  const HingeRows rows(12, own_and_shared);
  const InPlaceCase one = rows.trial(kRate, /*bias=*/false);
  for (const std::string kind : {"averaging", "hogwild"}) {
    for (const std::int64_t merge_after : {0, 4}) {
      INFO(kind << ", merged after " << merge_after);
      Training training = one.training(
          strategy_of(fmt::format("kind = '{}', period = 100, merge = 'sum', merge_after = {}", kind, merge_after)));
      training.batch_size = 2;
      training.epochs = 1;
      training.ranks = 2;
      const auto ranks = train({}, training);
      CHECK(ranks_agree(ranks));
      // What rank 0 holds after each step, in steps of the rate.
      std::vector<float> shared, others;
      for (const auto& theta : ranks[0].trajectory) {
        shared.push_back(theta[2] / kRate);
        others.push_back(theta[1] / kRate);
      }
      if (merge_after == 0) {
        CHECK(shared == std::vector<float>{1, 2, 3, 4, 5, 12});
        CHECK(others == std::vector<float>{0, 0, 0, 0, 0, 6});
      } else {
        CHECK(shared == std::vector<float>{1, 4, 5, 8, 9, 12});
        CHECK(others == std::vector<float>{0, 0, 0, 4, 4, 6});
      }
    }
  }
}

TEST_CASE("rows that are touched very often are merged within a step, and no change is lost", "[averaging]") {
  // Three steps of 16384 rows, half of them each rank's: all but every 16th have feature 2, the others feature 0.
  constexpr std::uint32_t kStep = 16384, kRows = 3 * kStep;
  constexpr float kRate = 0x1p-20F;  // no margin comes to 1, and all sums are exact
  const HingeRows rows(kRows, [](std::uint32_t row) { return std::vector{row % 16 == 0 ? 0U : 2U}; });
  const InPlaceCase one = rows.trial(kRate, /*bias=*/false);
  for (const std::string kind : {"averaging", "hogwild"}) {
    std::int64_t average_bytes = 0;
    for (const std::int64_t merge_after : {0, 128}) {
      INFO(kind << ", merged after " << merge_after);
      Training training = one.training(
          strategy_of(fmt::format("kind = '{}', period = 100, merge = 'sum', merge_after = {}", kind, merge_after)));
      training.batch_size = kStep;
      training.epochs = 1;
      training.ranks = 2;
      const auto ranks = train({}, training);
      CHECK(ranks_agree(ranks));
      CHECK(ranks[0].parameters[0] == kRate * (kRows / 16));
      CHECK(ranks[0].parameters[2] == kRate * (kRows - kRows / 16));
      if (merge_after == 0) {
        average_bytes = ranks[0].counters.get<AveragedCounters>().bytes;
        continue;
      }
      // Four parts a step: touches of 4 rows are counted after two parts of the first one, and after two steps; both
      // rows are merged after every part, but the last one with the average.
      CHECK(ranks[0].counters.get<AveragedCounters>().bytes == average_bytes + 4 * (4 * (2 + 2) + 2 * 11));
    }
  }
}

TEST_CASE("threads that work on the same rows at the same time are noticed", "[hogwild]") {
  models::ConflictMeter meter({{"rows", 0, 16, 4}}, 2);
  meter.begin(0);
  meter.touch(0, 0, 1);
  meter.touch(0, 0, 2);
  meter.begin(1);
  meter.touch(1, 0, 2);  // thread 0 is still at its example
  meter.touch(1, 0, 3);
  CHECK(meter.conflicts() == 1);
  meter.begin(0);
  meter.touch(0, 0, 3);  // and so is thread 1
  meter.begin(1);
  meter.touch(1, 0, 2);  // its own, from before
  meter.touch(1, 0, 1);  // thread 0 is no longer there
  CHECK(meter.conflicts() == 2);
  CHECK(meter.touched() == 7);
}

}  // namespace unisono::strategies
