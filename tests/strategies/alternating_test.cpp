#include "batch/alternating.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <set>

#include "../data/support.hpp"
#include "../kernels/reference_least_squares.hpp"
#include "expect.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::strategies {
using test::TempDir;

namespace {

constexpr std::uint64_t kAlternatingSeed = 5;
constexpr double kRoundoff = 0x1p-24;

struct Rating {
  std::size_t user = 0, item = 0;
  double value = 0;
};

/// A set of ratings, in memory and in a file. Every seventh user and the last item have none.
struct Set {
  std::size_t users = 203, items = 97;
  std::size_t size = 3000;
  std::vector<Rating> ratings = {};
  std::string path = {};

  void write(const TempDir& folder) {
    RandomStream random(3, Purpose::test);
    std::set<std::pair<std::size_t, std::size_t>> known;
    std::vector<std::uint32_t> user_numbers, item_numbers;
    std::vector<float> values;
    const auto draw = [&](std::size_t n) {
      const float x = random.uniform();
      return std::min(n - 1, static_cast<std::size_t>(x * x * static_cast<float>(n)));
    };
    while (ratings.size() < size) {
      const std::size_t user = draw(users), item = draw(items - 1);
      if (user % 7 == 6 || !known.insert({user, item}).second) continue;
      const float value = static_cast<float>(user % 3 + item % 4 + random.below(3)) / 2;
      ratings.push_back({user, item, static_cast<double>(value)});
      user_numbers.push_back(static_cast<std::uint32_t>(user));
      item_numbers.push_back(static_cast<std::uint32_t>(item));
      values.push_back(value);
    }
    path = folder / "ratings.h5";
    data::hdf5::File file(path, data::hdf5::File::Mode::create);
    file.write("train/users", user_numbers);
    file.write("train/items", item_numbers);
    file.write("train/ratings", values);
    file.write("validation/users", std::vector<std::uint32_t>{static_cast<std::uint32_t>(users - 1)});
    file.write("validation/items", std::vector<std::uint32_t>{static_cast<std::uint32_t>(items - 1)});
    file.write("validation/ratings", std::vector<float>{2});
  }
};

models::FactorizationSettings explicit_settings(std::int64_t dimension, bool biases, models::PenaltyPer per) {
  const double l2 = per == models::PenaltyPer::rating ? 0.05 : 1.5;
  return {.dimension = dimension, .user_l2 = l2, .item_l2 = 2 * l2, .l2_per = per, .biases = biases};
}

models::FactorizationSettings implicit_settings(std::int64_t dimension) {
  return {.dimension = dimension,
          .user_l2 = 2,
          .item_l2 = 1,
          .l2_per = models::PenaltyPer::user_and_item,
          .biases = false,
          .feedback = models::Feedback::implicit,
          .confidence = 3};
}

struct AlternatingJob {
  const Set& set;
  models::FactorizationSettings model;
  int ranks = 1, threads = 1;
  std::int64_t epochs = 4, first = 0, stop_after = 1'000'000;
  double tolerance = 0;
  const std::vector<float>* resumed = nullptr;
};

/// A table as the model has it, in double.
struct Rows {
  std::vector<std::vector<double>> factors;
  std::vector<double> biases;
};

struct AlternatingResult {
  std::vector<float> theta;
  Rows users, items;
  std::vector<double> objectives;  ///< over the number of ratings
  std::vector<StepRecord> records;
  std::vector<double> losses, squared, absolute;  ///< of each iteration, over all ranks
  kernels::LossSums evaluated;                    ///< of all training ratings, as evaluations have them
  std::int64_t passed_bytes = 0;
  optim::BatchEnd end = optim::BatchEnd::none;
  double mean = 0;
};

Rows rows_of(const models::Model& model, const std::vector<float>& theta, const std::string& name, bool biases) {
  const auto read = [&](const std::string& block_name) {
    const Block& block = model.layout().block(block_name);
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    to_canonical(block, part(View(theta), block), values);
    return std::vector<double>(values.begin(), values.end());
  };
  const Block& block = model.layout().block(name + ".factors");
  const auto k = static_cast<std::size_t>(block.shape[1]);
  const auto values = read(name + ".factors");
  Rows rows;
  for (auto at = values.begin(); at != values.end(); at += static_cast<std::ptrdiff_t>(k)) {
    rows.factors.emplace_back(at, at + static_cast<std::ptrdiff_t>(k));
  }
  rows.biases = biases ? read(name + ".bias") : std::vector<double>(rows.factors.size());
  return rows;
}

/// Reads the losses after each iteration, as a run does.
class AlternatingRecorder final : public Observer {
 public:
  AlternatingRecorder(const AlternatingJob& job, comm::Communicator& ranks, kernels::LossSums& sums,
                      AlternatingResult& result)
      : job_(job), ranks_(ranks), sums_(sums), result_(result) {}
  bool step(const StepRecord& record) override {
    EXPECT((record.consistent && record.iteration));
    objectives_.push_back(record.iteration->value);
    end_ = record.iteration->end;
    comm::CommunicatorSquares(ranks_).sum(sums_.settled);
    EXPECT(ranks_.sum(sums_.examples) == std::ssize(job_.set.ratings));
    sums_.unsettle();
    if (ranks_.is_root()) {
      result_.records.push_back(record);
      result_.losses.push_back(sums_.loss);
      result_.squared.push_back(sums_.squared_error);
      result_.absolute.push_back(sums_.absolute_error);
    }
    sums_ = {};
    return record.step < job_.stop_after;
  }
  std::int64_t next_due(std::int64_t step) const override { return step + 1; }
  const std::vector<double>& objectives() const { return objectives_; }
  optim::BatchEnd end() const { return end_; }

 private:
  const AlternatingJob& job_;
  comm::Communicator& ranks_;
  kernels::LossSums& sums_;
  AlternatingResult& result_;
  std::vector<double> objectives_;
  optim::BatchEnd end_ = optim::BatchEnd::none;
};

std::unique_ptr<models::Model> make_model(const models::FactorizationSettings& model, const data::DatasetInfo& info,
                                          kernels::Backend& backend, const std::string& rule,
                                          const std::vector<std::int64_t>& counts) {
  static LocalReducer reducer;
  models::ModelSettings settings;
  settings.kind = "factorization";
  settings.factorization = model;
  return models::make_model(
      settings, {.kind = info.kind, .rows = info.rows, .columns = info.columns, .mean_value = info.mean_value},
      {.backend = backend,
       .reducer = reducer,
       .steps_together = false,
       .seed = kAlternatingSeed,
       .update_rule = rule,
       .occurrences = [&counts] { return std::span<const std::int64_t>(counts); }});
}

/// A run of one rank. \param result rank 0's is kept, and all others' θ must be the same
void train_rank(const AlternatingJob& job, comm::Communicator& ranks, AlternatingResult& result, std::mutex& mutex) {
  data::DataSettings settings;
  settings.path = job.set.path;
  const auto data = data::open_dataset(settings, kAlternatingSeed);
  const auto backend = kernels::make_cpu_backend(1);
  const auto model = make_model(job.model, data->info(), *backend, "als", data->occurrences());
  Buffer theta(model->layout().size());
  const models::ModelState state{.parameters = theta.view(), .statistics = {}};
  model->initialise(kAlternatingSeed, state);
  if (job.resumed != nullptr) std::ranges::copy(*job.resumed, theta.data());
  const auto source = data->train({.batch_size = data->info().train, .seed = kAlternatingSeed});
  optim::OptimizerSettings als{.kind = "als", .learning_rate = 0};
  als.own.of<optim::AlsSettings>().function_tolerance = job.tolerance;
  const optim::Schedule schedule({}, 1, job.epochs, 1);
  kernels::LossSums sums;
  Seconds seconds;
  CounterSet counters;
  AlternatingRecorder recorder(job, ranks, sums, result);
  parallel::SingleReplica replica(*model);
  TrainContext run{{.communicator = ranks,
                    .backend = *backend,
                    .model = *model,
                    .replica = replica,
                    .optimizer = nullptr,
                    .source = *source,
                    .state = state,
                    .gradient = {},
                    .sums = sums,
                    .seconds = seconds,
                    .counters = counters,
                    .first_step = job.first},
                   {.optimizer_settings = als,
                    .schedule = schedule,
                    .observer = recorder,
                    .total_steps = job.epochs,
                    .threads = job.threads},
                   {},
                   {}};
  run.data = data.get();
  train_alternating(run);
  const std::vector<float> values(theta.data(), theta.data() + theta.size());
  if (ranks.is_root()) {
    result.theta = values;
    result.objectives = recorder.objectives();
    result.end = recorder.end();
    result.mean = static_cast<double>(static_cast<float>(data->info().mean_value));
    const auto all = data->training_part(0, 1, 64, {});
    while (const auto batch = all->next()) model->evaluate(*batch, state, result.evaluated);
    result.users = rows_of(*model, values, "users", job.model.biases);
    result.items = rows_of(*model, values, "items", job.model.biases);
  }
  ranks.barrier();
  EXPECT(values == result.theta);
  EXPECT(recorder.objectives() == result.objectives);
  EXPECT(recorder.end() == result.end);
  const std::lock_guard guard(mutex);
  result.passed_bytes += counters.get<PassedCounters>().bytes;
}

AlternatingResult train_factors(const AlternatingJob& job) {
  AlternatingResult result;
  std::mutex mutex;
  comm::run_as_threads(job.ranks, [&](comm::Communicator& ranks) { train_rank(job, ranks, result, mutex); });
  return result;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double square(double x) { return x * x; }

std::vector<double> counts_of(const Set& set, bool users) {
  std::vector<double> counts(users ? set.users : set.items);
  for (const Rating& rating : set.ratings) ++counts[users ? rating.user : rating.item];
  return counts;
}

double penalty_of(const Rows& rows, const std::vector<double>& counts, double l2, models::PenaltyPer per) {
  double sum = 0;
  for (std::size_t i = 0; i < rows.factors.size(); ++i) {
    const double times = per == models::PenaltyPer::rating ? counts[i] : 1;
    sum += times * l2 / 2 * (dot(rows.factors[i], rows.factors[i]) + square(rows.biases[i]));
  }
  return sum;
}

/// J by its definition.
double objective_of(const AlternatingJob& job, const AlternatingResult& result) {
  const models::FactorizationSettings& model = job.model;
  double sum = penalty_of(result.users, counts_of(job.set, true), model.user_l2, model.l2_per) +
               penalty_of(result.items, counts_of(job.set, false), model.item_l2, model.l2_per);
  if (model.feedback == models::Feedback::implicit) {
    for (const auto& p : result.users.factors) {
      for (const auto& q : result.items.factors) sum += square(dot(p, q)) / 2;
    }
  }
  for (const Rating& rating : job.set.ratings) {
    const double product = dot(result.users.factors[rating.user], result.items.factors[rating.item]);
    if (model.feedback == models::Feedback::implicit) {
      const double preference = rating.value > 0 ? 1 : 0, weight = 1 + model.confidence * rating.value;
      sum += (weight * square(preference - product) - square(product)) / 2;
    } else {
      const double biases = result.users.biases[rating.user] + result.items.biases[rating.item];
      sum += square(rating.value - result.mean - biases - product) / 2;
    }
  }
  return sum;
}

/// The items that minimise J for these users, in double, by their normal equations.
Rows best_items(const AlternatingJob& job, const AlternatingResult& result) {
  const models::FactorizationSettings& model = job.model;
  const bool implicit = model.feedback == models::Feedback::implicit;
  const std::size_t k = static_cast<std::size_t>(model.dimension) + (model.biases ? 1 : 0);
  std::vector<reference::Equations> equations(job.set.items, reference::Equations(k));
  for (const Rating& rating : job.set.ratings) {
    auto z = result.users.factors[rating.user];
    const double weight = 1 + model.confidence * rating.value, preference = rating.value > 0 ? 1 : 0;
    if (model.biases) z.push_back(1);
    equations[rating.item].add(
        z, implicit ? weight - 1 : 1,
        implicit ? weight * preference : rating.value - result.mean - result.users.biases[rating.user]);
  }
  const auto counts = counts_of(job.set, false);
  Rows rows{.factors = {}, .biases = std::vector<double>(job.set.items)};
  for (std::size_t item = 0; item < job.set.items; ++item) {
    for (const auto& p : result.users.factors) {
      if (implicit) equations[item].add(p, 1, 0);
    }
    const double times = model.l2_per == models::PenaltyPer::rating ? std::max(1.0, counts[item]) : 1;
    equations[item].add_to_diagonal(times * model.item_l2);
    rows.factors.push_back(equations[item].solution());
    if (!model.biases) continue;
    rows.biases[item] = rows.factors.back().back();
    rows.factors.back().pop_back();
  }
  return rows;
}

std::vector<models::FactorizationSettings> all_settings(std::int64_t dimension) {
  using enum models::PenaltyPer;
  return {explicit_settings(dimension, true, rating), explicit_settings(dimension, false, rating),
          explicit_settings(dimension, true, user_and_item), implicit_settings(dimension)};
}

}  // namespace

TEST_CASE("after an iteration the items minimise the objective for its users", "[alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  for (const std::int64_t dimension : {5, 17, 40}) {
    for (const auto& model : all_settings(dimension)) {
      const AlternatingJob job{.set = set, .model = model, .epochs = 2};
      const AlternatingResult result = train_factors(job);
      const Rows expected = best_items(job, result);
      // Equations of condition at most 2000 here, each with some K + n roundings.
      const double bound = 2000 * static_cast<double>(dimension + 100) * kRoundoff;
      for (std::size_t item = 0; item < set.items; ++item) {
        CAPTURE(dimension, model.biases, item);
        const double size = reference::norm(expected.factors[item]) + std::abs(expected.biases[item]);
        CHECK(reference::distance(result.items.factors[item], expected.factors[item]) <= bound * size);
        CHECK(std::abs(result.items.biases[item] - expected.biases[item]) <= bound * size);
      }
    }
  }
}

TEST_CASE("the objective is that of the definition, and never rises", "[alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  const auto n = static_cast<double>(set.size);
  for (const auto& model : all_settings(12)) {
    const AlternatingJob job{.set = set, .model = model, .ranks = 2, .epochs = 25};
    const AlternatingResult result = train_factors(job);
    REQUIRE(result.objectives.size() == 25);
    CHECK(result.objectives.back() * n == Approx(objective_of(job, result)).epsilon(1e-6));
    CHECK(result.objectives.back() < 0.9 * result.objectives.front());
    for (std::size_t i = 1; i < result.objectives.size(); ++i) {
      // A row misses its minimum by the square of its relative error.
      CHECK(result.objectives[i] <= result.objectives[i - 1] * (1 + 1e-6));
    }
  }
}

TEST_CASE("losses of an iteration are those of its ratings", "[alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  const AlternatingResult result =
      train_factors({.set = set, .model = explicit_settings(8, true, models::PenaltyPer::rating)});
  double squared = 0, absolute = 0;
  for (const Rating& rating : set.ratings) {
    const double error = result.mean + result.users.biases[rating.user] + result.items.biases[rating.item] +
                         dot(result.users.factors[rating.user], result.items.factors[rating.item]) - rating.value;
    squared += error * error;
    absolute += std::abs(error);
  }
  CHECK(result.squared.back() == Approx(squared).epsilon(1e-5));
  CHECK(result.losses.back() == Approx(squared / 2).epsilon(1e-5));
  CHECK(result.absolute.back() == Approx(absolute).epsilon(1e-5));
  CHECK(result.records.back().step == 4);
  CHECK(result.records.back().epoch == 3);
  CHECK(result.records.back().last_of_epoch);
  CHECK(result.records.back().global_size == 3000);
}

TEST_CASE("training and evaluation measure the same", "[alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  for (const auto& model : all_settings(7)) {
    const AlternatingResult result = train_factors({.set = set, .model = model, .ranks = 2});
    CHECK(result.evaluated.loss == Approx(result.losses.back()).epsilon(1e-5));
    CHECK(result.evaluated.squared_error == Approx(result.squared.back()).epsilon(1e-5));
    CHECK(result.evaluated.absolute_error == Approx(result.absolute.back()).epsilon(1e-5));
  }
}

TEST_CASE("the same bits on any number of ranks and threads", "[long][alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  for (const auto& model : all_settings(19)) {
    const AlternatingResult serial = train_factors({.set = set, .model = model});
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int threads : {1, 2, 3}) {
        CAPTURE(ranks, threads, model.biases);
        const AlternatingResult result =
            train_factors({.set = set, .model = model, .ranks = ranks, .threads = threads});
        CHECK(result.theta == serial.theta);
        CHECK(result.objectives == serial.objectives);
        CHECK(result.losses == serial.losses);
        CHECK(result.squared == serial.squared);
        CHECK(result.absolute == serial.absolute);
        // Each row goes to all other ranks: 19 factors, filled up, and a line with the bias.
        CHECK(result.passed_bytes == 4 * (ranks - 1) * static_cast<Index>(set.users + set.items) * 48 * 4);
      }
    }
  }
}

TEST_CASE("users and items without ratings become zero", "[alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  for (const auto& model : all_settings(6)) {
    const AlternatingResult result = train_factors({.set = set, .model = model, .ranks = 3, .threads = 2});
    for (std::size_t user = 6; user < set.users; user += 7) {
      CHECK(reference::norm(result.users.factors[user]) == 0);
      CHECK(result.users.biases[user] == 0);
    }
    CHECK(reference::norm(result.items.factors.back()) == 0);
    CHECK(reference::norm(result.items.factors.front()) > 0);
  }
}

TEST_CASE("a stopped run goes on with the same bits, and ends where it would have", "[alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  for (const auto& model : all_settings(9)) {
    const double tolerance = 3e-3;
    const AlternatingResult whole = train_factors({.set = set, .model = model, .epochs = 40, .tolerance = tolerance});
    REQUIRE(whole.end == optim::BatchEnd::function);
    const auto made = static_cast<std::int64_t>(whole.records.size());
    REQUIRE(made < 40);
    for (const std::int64_t step : {std::int64_t{1}, std::int64_t{2}, made - 1}) {
      CAPTURE(step, made);
      const AlternatingResult stopped = train_factors(
          {.set = set, .model = model, .ranks = 2, .epochs = 40, .stop_after = step, .tolerance = tolerance});
      REQUIRE(std::ssize(stopped.records) == step);
      const AlternatingResult on = train_factors({.set = set,
                                                  .model = model,
                                                  .ranks = 3,
                                                  .epochs = 40,
                                                  .first = step,
                                                  .tolerance = tolerance,
                                                  .resumed = &stopped.theta});
      CHECK(on.theta == whole.theta);
      CHECK(on.records.back().step == made);
      CHECK(on.end == optim::BatchEnd::function);
      CHECK(on.objectives.back() == whole.objectives.back());
    }
  }
}

TEST_CASE("portions of rows are about equal work, whatever the ranks", "[alternating]") {
  std::vector<double> work;
  for (int i = 0; i < 20000; ++i) work.push_back(i % 100 == 0 ? 50 : 1);
  const TablePortions portions(work);
  CHECK(portions.size() > TablePortions::kPortions / 8);
  for (const int ranks : {1, 2, 3, 7}) {
    Index next = 0;
    double most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Numbers rows = portions.rows_of_rank(rank, ranks);
      CHECK(rows.first == next);
      next = rows.last;
      double sum = 0;
      for (Index row = rows.first; row < rows.last; ++row) sum += work[static_cast<std::size_t>(row)];
      most = std::max(most, sum);
    }
    CHECK(next == 20000);
    CHECK(most <= 29800.0 / ranks + 100);
  }
  const TablePortions few(std::vector<double>{0, 3, 0});
  CHECK(few.rows_of_rank(0, 4).first == 0);
  CHECK(few.rows_of_rank(3, 4).last == 3);
}

TEST_CASE("what alternating least squares cannot train is refused", "[alternating]") {
  const TempDir folder;
  Set set;
  set.write(folder);
  data::DataSettings settings;
  settings.path = set.path;
  const auto info = data::open_dataset(settings, kAlternatingSeed)->info();
  const auto backend = kernels::make_cpu_backend(1);
  const auto make = [&](models::FactorizationSettings model, const std::string& rule) {
    return make_model(model, info, *backend, rule, {});
  };
  auto model = explicit_settings(4, true, models::PenaltyPer::rating);
  CHECK_NOTHROW(require_alternating(*make(model, "als")));
  CHECK_THROWS_AS(require_alternating(*make(model, "sgd")), ConfigError);
  model.item_l2 = 0;
  CHECK_THROWS_AS(make(model, "als"), ConfigError);
  CHECK_THROWS_AS(make(implicit_settings(4), "adagrad"), ConfigError);
  CHECK_THROWS_AS(make(explicit_settings(4, true, models::PenaltyPer::rating), "adam"), ConfigError);
}

TEST_CASE("implicit feedback has a confidence, and no biases", "[alternating]") {
  const auto parsed = [](std::string text) {
    std::ranges::replace(text, ',', '\n');
    models::FactorizationSettings settings;
    parse_config({.path = "test.toml", .text = text, .overrides = {}},
                 [&](ConfigVisitor& visitor) { settings.describe(visitor); });
    return settings;
  };
  const auto settings = parsed("feedback = 'implicit', confidence = 2.5, biases = false");
  CHECK(settings.feedback == models::Feedback::implicit);
  CHECK(settings.confidence == 2.5);
  CHECK(parsed("dimension = 3").feedback == models::Feedback::explicit_);
  CHECK_THROWS_AS(parsed("feedback = 'implicit'"), ConfigError);  // biases are on
  CHECK_THROWS_AS(parsed("confidence = 2"), ConfigError);
  CHECK_THROWS_AS(parsed("feedback = 'implicit', biases = false, confidence = -1"), ConfigError);
  CHECK_THROWS_AS(parsed("feedback = 'likes'"), ConfigError);
}

}  // namespace unisono::strategies
