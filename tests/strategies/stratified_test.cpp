#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "../data/support.hpp"
#include "expect.hpp"
#include "holding_checks.hpp"
#include "step.hpp"
#include "stratified/item_ring.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {
using test::TempDir;

namespace {

constexpr std::uint64_t kStratifiedSeed = 5;
constexpr Index kUsers = 203, kItems = 97;  // no multiples of the grid's side, which is 6

/// 20,000 training and 3,000 validation ratings, the first items and users having the most.
std::string write_ratings(const std::string& path) {
  data::hdf5::File file(path, data::hdf5::File::Mode::create);
  RandomStream random(3, Purpose::test);
  const auto draw = [&](Index lines) {
    const float x = random.uniform();
    return std::min(static_cast<std::uint32_t>(lines) - 1,
                    static_cast<std::uint32_t>(x * x * static_cast<float>(lines)));
  };
  for (const auto& [group, n] : {std::pair("train", 20000), std::pair("validation", 3000)}) {
    std::vector<std::uint32_t> users, items;
    std::vector<float> ratings;
    for (int i = 0; i < n; ++i) {
      users.push_back(draw(kUsers));
      items.push_back(draw(kItems));
      ratings.push_back(static_cast<float>((users.back() % 3 + items.back() % 4 + random.below(3)) / 2.0));
    }
    file.write(std::string(group) + "/users", users);
    file.write(std::string(group) + "/items", items);
    file.write(std::string(group) + "/ratings", ratings);
  }
  return path;
}

struct StratifiedJob {
  std::string path;
  StrategySettings strategy{.kind = "stratified"};
  std::string rule = "adagrad";
  int ranks = 1;
  std::int64_t epochs = 3, first_step = 0;
  std::int64_t due = 1'000'000;  ///< steps between those that the observer wants to see
  std::int64_t stop_after = 1'000'000;
  const std::vector<float>* resumed = nullptr;  ///< θ at the first step
};

struct StratifiedResult {
  std::vector<float> parameters;  ///< all of θ
  double loss = 0, validation_loss = 0;
  std::int64_t examples = 0, passed_bytes = 0, steps_per_epoch = 0;
  std::vector<std::int64_t> seen;  ///< the steps that the first rank recorded
  Index largest_part = 0;          ///< of θ, in floats
};

class StratifiedRecorder final : public Observer {
 public:
  StratifiedRecorder(const StratifiedJob& job, StratifiedResult* result) : job_(job), result_(result) {}
  bool step(const StepRecord& record) override {
    EXPECT(record.consistent);
    if (result_ != nullptr) {
      result_->seen.push_back(record.step);
      result_->examples += record.global_size;
    }
    return record.step < job_.stop_after;
  }
  std::int64_t next_due(std::int64_t step) const override { return step + job_.due; }

 private:
  const StratifiedJob& job_;
  StratifiedResult* result_;
};

/// Trains on ranks that are threads, each with a part of the data and of θ; or serially.
StratifiedResult train_stratified(const StratifiedJob& job) {
  StratifiedResult result;
  std::mutex mutex;
  const bool serial = job.strategy.kind == "serial";
  comm::run_as_threads(job.ranks, [&](comm::Communicator& communicator) {
    data::DataSettings settings;
    settings.path = job.path;
    settings.partition = serial ? data::Partition::global : data::Partition::strata;
    settings.order = data::Order::strata;
    data::NodeShare share;
    share.rank = communicator.rank();
    share.size = communicator.size();
    const auto data = data::open_dataset(settings, kStratifiedSeed, share);
    const data::DatasetInfo& info = data->info();
    const auto backend = kernels::make_cpu_backend(1);
    LocalReducer reducer;
    models::ModelSettings model_settings;
    model_settings.kind = "factorization";
    model_settings.factorization.dimension = 5;
    const auto model = models::make_model(
        model_settings, {.kind = info.kind, .rows = info.rows, .columns = info.columns, .mean_value = info.mean_value},
        {.backend = *backend,
         .reducer = reducer,
         .steps_together = false,
         .seed = kStratifiedSeed,
         .update_rule = job.rule});
    const auto strategy = make_strategy(job.strategy);
    const auto rows = strategy->divide(*model, info, communicator);
    EXPECT((rows == nullptr) == serial);
    const ParameterLayout& layout = model->layout();
    std::vector<float> theta(static_cast<std::size_t>(serial ? layout.size() : rows->size()));
    if (serial) {
      model->initialise(kStratifiedSeed, {.parameters = theta, .statistics = {}});
    } else {
      rows->begin(job.first_step);
      const WholeHolding statistics(model->statistics_layout());
      model->initialise_held(kStratifiedSeed, {*rows, statistics}, {.parameters = theta, .statistics = {}});
      if (job.resumed != nullptr) theta = test::part_of(*rows, *job.resumed);
    }
    const auto source =
        data->train({.rank = communicator.rank(), .size = communicator.size(), .seed = kStratifiedSeed});
    source->seek({job.first_step / source->steps_per_epoch(), job.first_step % source->steps_per_epoch()});
    const std::int64_t steps = job.epochs * source->steps_per_epoch();
    const optim::Schedule schedule({.kind = optim::ScheduleKind::linear}, 0.05, steps, source->steps_per_epoch());
    kernels::LossSums sums;
    Seconds seconds;
    CounterSet counters;
    StratifiedRecorder recorder(job, communicator.is_root() ? &result : nullptr);
    const optim::OptimizerSettings unused;
    const auto optimizer = optim::make_optimizer(unused, layout, *backend);
    parallel::SingleReplica replica(*model);
    TrainContext run{{.communicator = communicator,
                      .backend = *backend,
                      .model = *model,
                      .replica = replica,
                      .optimizer = optimizer.get(),
                      .source = *source,
                      .state = {.parameters = theta, .statistics = {}},
                      .gradient = {},
                      .sums = sums,
                      .seconds = seconds,
                      .counters = counters,
                      .first_step = job.first_step},
                     {.optimizer_settings = unused,
                      .schedule = schedule,
                      .observer = recorder,
                      .total_steps = steps,
                      .threads = static_cast<int>(std::max<std::int64_t>(1, job.strategy.threads))},
                     {},
                     {}};
    strategy->train(run);
    kernels::LossSums validation;
    const auto evaluation = data->evaluate(data::Split::validation, communicator.rank(), communicator.size(), 64);
    if (serial) {
      while (const auto batch = evaluation->next()) model->evaluate(*batch, run.state, validation);
    } else {
      rows->evaluate(*evaluation, theta, validation);
    }
    const std::vector<float> all = serial ? theta : test::gathered(communicator, *rows, theta);
    const std::lock_guard guard(mutex);
    result.steps_per_epoch = source->steps_per_epoch();
    result.loss += sums.loss;
    result.validation_loss += validation.loss;
    result.passed_bytes += counters.get<PassedCounters>().bytes;
    result.largest_part = std::max(result.largest_part, static_cast<Index>(theta.size()));
    result.parameters = all;
  });
  return result;
}

}  // namespace

TEST_CASE("training in strata is the serial run in the same order, on any number of ranks and threads",
          "[long][stratified]") {
  const TempDir folder;
  const std::string path = write_ratings(folder / "a.h5");
  for (const std::string rule : {"sgd", "adagrad"}) {
    const StratifiedResult serial = train_stratified({.path = path, .strategy = {.kind = "serial"}, .rule = rule});
    REQUIRE(serial.steps_per_epoch == 6);
    REQUIRE(std::isfinite(serial.loss));
    REQUIRE(serial.validation_loss < 3000);
    for (const int ranks : {1, 2, 3, 4, 6}) {
      for (const std::int64_t threads : {1, 2, 4}) {
        INFO(rule << ", " << ranks << " ranks, " << threads << " threads");
        StratifiedJob job{.path = path, .rule = rule, .ranks = ranks};
        job.strategy.threads = threads;
        job.due = threads == 2 ? 4 : 1'000'000;
        const StratifiedResult result = train_stratified(job);
        CHECK(result.parameters == serial.parameters);
        CHECK(result.examples == 3 * 20000);
        // Sums of 60,000 and of 3,000 losses, in another order.
        CHECK(result.loss == Approx(serial.loss).epsilon(60000 * 0x1p-52));
        CHECK(result.validation_loss == Approx(serial.validation_loss).epsilon(3000 * 0x1p-52));
        if (threads == 2) CHECK(result.seen == std::vector<std::int64_t>{4, 8, 12, 16, 18});
      }
    }
  }
}

TEST_CASE("a rank holds its part of θ, and every item goes round once an epoch", "[stratified]") {
  const TempDir folder;
  const std::string path = write_ratings(folder / "a.h5");
  constexpr Index kStride = 32;  // 5 factors, filled up; bias and sum of squares, filled up
  for (const int ranks : {2, 3}) {
    const StratifiedResult result = train_stratified({.path = path, .ranks = ranks, .epochs = 2});
    // ⌈203 / 6⌉ users a row of the grid; the items of as many columns, and of two more
    const Index rows = 6 / ranks;
    CHECK(result.largest_part <= (rows * 34 + (rows + 2) * 17) * kStride);
    CHECK(result.passed_bytes == 2 * ranks * kItems * kStride * 4);
  }
  CHECK(train_stratified({.path = path, .ranks = 1, .epochs = 1}).passed_bytes == 0);
}

TEST_CASE("a run in strata goes on anywhere, on another number of ranks", "[stratified]") {
  const TempDir folder;
  const std::string path = write_ratings(folder / "a.h5");
  const StratifiedResult whole = train_stratified({.path = path, .ranks = 2});
  for (const std::int64_t step : {6, 12, 15}) {
    const StratifiedResult stopped = train_stratified({.path = path, .ranks = 2, .due = step, .stop_after = step});
    REQUIRE(stopped.seen == std::vector<std::int64_t>{step});
    for (const int ranks : {1, 2, 3, 4}) {
      INFO("stopped at step " << step << ", then " << ranks << " ranks");
      const StratifiedResult on =
          train_stratified({.path = path, .ranks = ranks, .first_step = step, .resumed = &stopped.parameters});
      CHECK(on.parameters == whole.parameters);
    }
  }
}

using Slowness = std::function<std::chrono::microseconds(Index row, std::int64_t diagonal)>;

/// Passes of `diagonals` each over a ring whose blocks take as long as they are told. Ranks that wait for a message
/// longer than 5 seconds fail.
void pass_round(const std::string& path, int ranks, int threads, std::int64_t diagonals, int passes,
                const Slowness& slowness) {
  CAPTURE(ranks, threads);
  comm::run_as_threads(
      ranks,
      [&](comm::Communicator& communicator) {
        data::DataSettings settings;
        settings.path = path;
        settings.order = data::Order::strata;
        const auto data = data::open_dataset(settings, kStratifiedSeed);
        const auto backend = kernels::make_cpu_backend(1);
        LocalReducer reducer;
        models::ModelSettings model_settings;
        model_settings.kind = "factorization";
        const auto model =
            models::make_model(model_settings, {.kind = data::SetKind::ratings, .rows = kUsers, .columns = kItems},
                               {.backend = *backend,
                                .reducer = reducer,
                                .steps_together = false,
                                .seed = kStratifiedSeed,
                                .update_rule = "sgd"});
        ItemRing ring(*model, data->info(), communicator);
        std::vector<float> theta(static_cast<std::size_t>(ring.size()));
        ThreadTeam team(threads);
        std::atomic<std::int64_t> visits{0};
        for (int pass = 0; pass < passes; ++pass) {
          ring.pass(diagonals, theta, team, [&](Index row, std::int64_t diagonal, const models::TableParts&) {
            const auto time = slowness(communicator.rank() * 7 + row, diagonal);
            if (time.count() > 0) std::this_thread::sleep_for(time);
            ++visits;
          });
        }
        EXPECT(visits == passes * diagonals * ring.rows());
      },
      5);
}

TEST_CASE("rows of a ring are held as every kind of holding promises, before and after columns have moved",
          "[stratified][holding]") {
  const TempDir folder;
  const std::string path = write_ratings(folder / "ratings.h5");
  for (const int ranks : {1, 2, 3}) {
    INFO(ranks << " ranks");
    comm::run_as_threads(ranks, [&](comm::Communicator& communicator) {
      data::DataSettings settings;
      settings.path = path;
      settings.partition = data::Partition::strata;
      settings.order = data::Order::strata;
      data::NodeShare share;
      share.rank = communicator.rank();
      share.size = communicator.size();
      const auto data = data::open_dataset(settings, kStratifiedSeed, share);
      const auto backend = kernels::make_cpu_backend(1);
      LocalReducer reducer;
      models::ModelSettings model_settings;
      model_settings.kind = "factorization";
      model_settings.factorization.dimension = 5;
      const auto model =
          models::make_model(model_settings, {.kind = data::SetKind::ratings, .rows = kUsers, .columns = kItems},
                             {.backend = *backend,
                              .reducer = reducer,
                              .steps_together = false,
                              .seed = kStratifiedSeed,
                              .update_rule = "adagrad"});
      ItemRing ring(*model, data->info(), communicator);
      std::vector<float> whole(static_cast<std::size_t>(model->layout().size()));
      model->initialise(kStratifiedSeed, {.parameters = whole, .statistics = {}});
      for (const std::int64_t step : {0, 1, 4}) {
        ring.begin(step);
        test::expect_holding(communicator, ring);
        std::vector<float> own(static_cast<std::size_t>(ring.size()));
        const WholeHolding statistics(model->statistics_layout());
        model->initialise_held(kStratifiedSeed, {ring, statistics}, {.parameters = own, .statistics = {}});
        EXPECT(test::gathered(communicator, ring, own) == whole);
      }
    });
  }
}

constexpr std::chrono::milliseconds kLong{12};

TEST_CASE("threads that are slow with the column that a peer waits for hold nobody up", "[stratified]") {
  const TempDir folder;
  const std::string path = write_ratings(folder / "a.h5");
  pass_round(path, 6, 2, 4, 1, [](Index, std::int64_t) { return 2 * kLong; });
}

TEST_CASE("ranks that are slow now and then hold nobody up for good", "[long][stratified]") {
  const TempDir folder;
  const std::string path = write_ratings(folder / "a.h5");
  for (const int ranks : {2, 3, 6}) {
    for (const int threads : {1, 2, 3}) {
      pass_round(path, ranks, threads, 5, 12, [](Index row, std::int64_t diagonal) {
        RandomStream random(kStratifiedSeed, Purpose::test, static_cast<std::uint64_t>(row),
                            static_cast<std::uint32_t>(diagonal));
        return random.below(6) == 0 ? kLong : std::chrono::microseconds(random.below(100));
      });
    }
  }
}

TEST_CASE("strata are refused where they cannot be", "[stratified]") {
  const TempDir folder;
  const std::string path = write_ratings(folder / "a.h5");
  CHECK_THROWS_AS(train_stratified({.path = path, .ranks = 7}), ConfigError);
}

}  // namespace unisono::strategies
