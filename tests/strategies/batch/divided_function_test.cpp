#include "batch/divided_function.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>

#include "../../data/support.hpp"
#include "../../nn/network_trial.hpp"
#include "expect.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::strategies {
namespace {

constexpr std::int64_t kExamples = 61, kFeatures = 37, kClasses = 3;

std::unique_ptr<data::Dataset> open_examples(const std::string& path) {
  data::DataSettings settings;
  settings.path = path;
  settings.normalization = data::NormalizationKind::none;
  return data::open_dataset(settings, 1);
}

void write_examples(const std::string& path) {
  data::hdf5::File file(path, data::hdf5::File::Mode::create);
  file.create<float>("train/features", {kExamples, kFeatures});
  file.write_rows("train/features", 0, kExamples, nn::generic_values(kExamples * kFeatures, 1).data());
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < kExamples; ++i) labels.push_back((5 * i + 2) % kClasses);
  file.write("train/labels", labels);
  file.write_attribute("", "classes", kClasses);
}

/// What an evaluation and a Hessian product give.
struct Result {
  double value = 0, largest = 0, dot = 0;
  std::vector<float> gradient, product;
  std::int64_t examples = 0, correct = 0;
  bool operator==(const Result&) const = default;
};

/// How the ranks' work is disturbed.
struct Disturbance {
  int slow_rank = -1;
  double pause_seconds = 0;
  std::uint64_t seed = 0;
  bool backup = true;
};

class NobodyWatches final : public Observer {
 public:
  bool step(const StepRecord&) override { return true; }
  std::int64_t next_due(std::int64_t step) const override { return step + 1; }
};

class NoBatches final : public data::BatchSource {
 public:
  data::Batch next() override { return {}; }
  std::int64_t steps_per_epoch() const override { return 1; }
  std::int64_t examples_per_epoch() const override { return kExamples; }
  void seek(const data::DataCursor&) override {}
  double wait_seconds() const override { return 0; }
};

/// Evaluates softmax regression with penalties at a generic point, twice. \return the same on every rank
Result evaluate(comm::Communicator& ranks, const std::string& path, const Disturbance& disturbance,
                BatchCounters* counted = nullptr) {
  const auto data = open_examples(path);
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  models::ModelSettings settings;
  settings.kind = "linear";
  settings.linear.loss = models::LinearLoss::softmax;
  settings.linear.l2 = 0.01;
  const auto model =
      models::make_model(settings, {.kind = data->info().kind, .features = data->info().features, .classes = kClasses},
                         {.backend = *backend, .reducer = reducer});
  models::Objective objective(*model, *backend, *data, {.portions = 13});
  Buffer parameters(model->layout().size()), statistics;
  parallel::SingleReplica replica(*model);
  NobodyWatches observer;
  const optim::OptimizerSettings optimizer_settings;
  const optim::Schedule schedule({}, 0, 1, 1);
  kernels::LossSums sums;
  Seconds seconds;
  CounterSet counters;
  parallel::FaultSettings slow;
  slow.slow_rank = disturbance.slow_rank;
  slow.pause_seconds = disturbance.pause_seconds;
  parallel::Fault fault(slow, disturbance.seed, ranks.rank());
  NoBatches source;
  TrainContext run{
      {.communicator = ranks,
       .backend = *backend,
       .model = *model,
       .replica = replica,
       .optimizer = nullptr,
       .source = source,
       .state = {.parameters = parameters.view(), .statistics = statistics.view()},
       .gradient = {},
       .sums = sums,
       .seconds = seconds,
       .counters = counters,
       .first_step = 0,
       .fault = &fault},
      {.optimizer_settings = optimizer_settings, .schedule = schedule, .observer = observer, .total_steps = 1},
      {},
      {.objective = &objective}};
  DividedFunction function(run, disturbance.backup);
  const VectorShards& shards = function.shards();
  const auto generic = nn::generic_values(static_cast<std::size_t>(shards.size()), 7);
  const FloatRange own = shards.shard(ranks.rank());
  std::vector<float> x(generic.begin() + own.first, generic.begin() + own.last), gradient(x.size()), product(x.size());
  Result result;
  for (int pass = 0; pass < 2; ++pass) result.value = function.value_and_gradient(x, gradient);
  function.hessian_times(x, gradient, product);
  result.largest = function.largest_magnitude(gradient);
  result.dot = function.dot(gradient, product);
  const kernels::LossSums losses = function.settle(x);
  result.examples = losses.examples;
  result.correct = losses.correct;
  for (const auto& [shard, whole] : {std::pair(&gradient, &result.gradient), std::pair(&product, &result.product)}) {
    for (const auto& bytes : ranks.all_gather_bytes(std::as_bytes(std::span(*shard)))) {
      const auto* const first = reinterpret_cast<const float*>(bytes.data());
      whole->insert(whole->end(), first, first + bytes.size() / sizeof(float));
    }
  }
  if (counted != nullptr) *counted = counters.get<BatchCounters>();
  return result;
}

TEST_CASE("an evaluation has the same bits in 40 schedules with pauses, backups and cancellations", "[long][batch]") {
  const test::TempDir folder;
  const std::string path = folder / "examples.h5";
  write_examples(path);
  const auto alone = comm::make_self_communicator();
  const Result expected = evaluate(*alone, path, {});
  CHECK(expected.examples == kExamples);
  CHECK(expected.gradient.size() == expected.product.size());
  std::atomic<std::int64_t> cancelled = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const int ranks = std::uniform_int_distribution(2, 4)(random);
    const Disturbance disturbance{.slow_rank = std::uniform_int_distribution(0, ranks - 1)(random),
                                  .pause_seconds = std::uniform_real_distribution(0.0002, 0.003)(random),
                                  .seed = seed,
                                  .backup = seed % 4 != 0};
    std::atomic<std::int64_t> finished = 0;
    comm::run_as_threads(ranks, [&](comm::Communicator& communicator) {
      BatchCounters counted;
      EXPECT(evaluate(communicator, path, disturbance, &counted) == expected);
      finished += counted.computed;
      cancelled += counted.cancelled;
    });
    CHECK(finished >= 3 * 13);  // three passes; portions that were computed twice count once, as the bits show
  }
  CHECK(cancelled > 0);
}

}  // namespace
}  // namespace unisono::strategies
