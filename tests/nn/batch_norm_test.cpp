// Batch statistics: of one rank, of all ranks, and the running ones.
#include <barrier>
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>

#include "network_trial.hpp"
#include "reference_backend.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

/// Sums over threads of this process: all add to one total between two barriers.
class ThreadReducer final : public Reducer {
 public:
  struct Meeting {
    explicit Meeting(int ranks) : barrier(ranks) {}
    std::barrier<> barrier;
    std::mutex mutex;
    std::vector<double> total;
    int sums = 0;
  };
  explicit ThreadReducer(Meeting& meeting) : meeting_(meeting) {}

  void sum(std::span<double> values) override {
    {
      const std::lock_guard lock(meeting_.mutex);
      meeting_.total.resize(values.size(), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) meeting_.total[i] += values[i];
      ++meeting_.sums;
    }
    meeting_.barrier.arrive_and_wait();
    std::copy(meeting_.total.begin(), meeting_.total.end(), values.begin());
    meeting_.barrier.arrive_and_wait();
    {
      const std::lock_guard lock(meeting_.mutex);
      meeting_.total.clear();
    }
    meeting_.barrier.arrive_and_wait();
  }

 private:
  Meeting& meeting_;
};

struct NormResult {
  std::vector<float> gradient, statistics;
  double loss = 0;
};

NormResult norm_result_of(Trial& trial) {
  NormResult result;
  result.loss = trial.loss_and_gradient();
  result.gradient = trial.canonical_gradient();
  result.statistics = canonical(trial.network.statistics(), trial.statistics.view());
  return result;
}

/// The step on ranks that hold examples [cuts[r], cuts[r + 1]); the gradients and losses summed.
NormResult on_ranks(const TrialSettings& settings, const std::vector<Index>& cuts, int* sums = nullptr) {
  const int ranks = static_cast<int>(cuts.size()) - 1;
  ThreadReducer::Meeting meeting(ranks);
  std::vector<NormResult> results(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < results.size(); ++r) {
      threads.emplace_back([&, r] {
        ReferenceBackend backend;
        ThreadReducer reducer(meeting);
        Trial trial(backend, settings, reducer, cuts[r], cuts[r + 1]);
        results[r] = norm_result_of(trial);
      });
    }
  }
  NormResult total = results.front();
  for (std::size_t r = 1; r < results.size(); ++r) {
    total.loss += results[r].loss;
    for (std::size_t i = 0; i < total.gradient.size(); ++i) total.gradient[i] += results[r].gradient[i];
    CHECK(results[r].statistics == total.statistics);
  }
  if (sums != nullptr) *sums = meeting.sums;
  return total;
}

/// Sums of doubles in another order move a mean by at most one rounding to float, 2⁻²⁴ of it; gradients are sums of
/// that many floats as there are ranks. Two layers raise that less than sixteenfold.
void check_nearly_equal(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (const float value : a) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 0x1p-20F * largest);
}

TrialSettings with_norms(const std::string& statistics) {
  const LayerSettings norm = layer("batch_norm", "statistics = '" + statistics + "'");
  const LayerSettings same = convolution(2, {3}, {1});
  return {.layers = {same, norm, layer("relu"), residual({same, norm}), layer("relu"), dense(3)},
          .in = {2, 3, 3},
          .batch = 6,
          .loss = "softmax_cross_entropy"};
}

TEST_CASE("a frozen batch norm computes in training what it computes afterwards", "[batch_norm][freeze]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const TrialSettings settings{.layers = {convolution(3, {2}), layer("batch_norm"), layer("relu"), dense(2)},
                               .in = {2, 3, 3},
                               .freeze = {"batch_norm1"}};
  Trial trial(*backend, settings, reducer);
  const std::vector<float> before = canonical(trial.network.statistics(), trial.statistics.view());
  CHECK(trial.outputs(true) == trial.outputs(false));
  CHECK(canonical(trial.network.statistics(), trial.statistics.view()) == before);
  CHECK(!trial.network.statistics_are_local());
}

TEST_CASE("a pattern that fits no parameters, or all of them, is an error", "[freeze]") {
  const auto backend = kernels::make_cpu_backend(1);
  const NetworkSettings settings{.layers = {dense(3), layer("tanh"), dense(2)}};
  const auto network = [&](std::vector<std::string> freeze) {
    Network(settings, {{4, 1, 1}}, *backend, {.freeze = std::move(freeze)});
  };
  network({"dense1"});
  network({"dense*.bias", "dense1"});
  CHECK_THROWS_AS(network({"dense"}), ConfigError);
  CHECK_THROWS_AS(network({"dense1", "tanh1"}), ConfigError);
  CHECK_THROWS_AS(network({"*"}), ConfigError);
}

TEST_CASE("with global statistics the ranks' gradients add up to those of one rank, however the batch is cut",
          "[batch_norm]") {
  const TrialSettings settings = with_norms("global");
  const NormResult one = on_ranks(settings, {0, 6});
  for (const auto& cuts : std::vector<std::vector<Index>>{{0, 3, 6}, {0, 1, 6}, {0, 0, 6}, {0, 6, 6}, {0, 2, 2, 6}}) {
    int sums = 0;
    const NormResult many = on_ranks(settings, cuts, &sums);
    CHECK(many.loss == Approx(one.loss).epsilon(0x1p-20));
    check_nearly_equal(one.gradient, many.gradient);
    check_nearly_equal(one.statistics, many.statistics);
    CHECK(sums == 4 * static_cast<int>(cuts.size() - 1));  // two norms, forward and backward, on every rank
  }
}

TEST_CASE("with local statistics a rank asks nobody and sees its own part alone", "[batch_norm]") {
  int sums = -1;
  on_ranks(with_norms("local"), {0, 6}, &sums);
  CHECK(sums == 0);
}

TEST_CASE("auto statistics are global where the ranks step together, else local; the notes say so", "[batch_norm]") {
  ReferenceBackend backend;
  const TrialSettings settings = with_norms("auto");
  const Network together({.layers = settings.layers}, {settings.in}, backend);
  const Network apart({.layers = settings.layers}, {settings.in}, backend, {.steps_together = false});
  CHECK(together.notes() == std::vector<std::string>{"global batch statistics"});
  CHECK(apart.notes() == std::vector<std::string>{"local batch statistics"});
  CHECK(together.rows(1)[1].kind == "batch_norm, global batch statistics");
}

/// One channel of values 1, 3 on a 1 × 1 image: mean 2, variance 1, unbiased 2.
TEST_CASE("running statistics follow the batch: mean and unbiased variance", "[batch_norm]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const LayerSettings norm = layer("batch_norm", "momentum = 0.25, epsilon = 0.0009765625");  // 2⁻¹⁰
  Trial trial(backend, {.layers = {norm}, .in = {1, 1, 1}, .batch = 2}, reducer);
  trial.features = {1, 3};
  const ParameterLayout& statistics = trial.network.statistics();
  CHECK(statistics.blocks()[0].name == "batch_norm1.mean");
  CHECK(statistics.blocks()[1].name == "batch_norm1.variance");
  CHECK(statistics.blocks()[0].role == Role::statistic);
  float& mean = part(trial.statistics.view(), statistics.blocks()[0])[0];
  float& variance = part(trial.statistics.view(), statistics.blocks()[1])[0];
  mean = 0;
  variance = 1;
  trial.training_loss();
  CHECK(mean == 0.5F);       // ¾·0 + ¼·2
  CHECK(variance == 1.25F);  // ¾·1 + ¼·2
  trial.training_loss();
  CHECK(mean == 0.875F);
  CHECK(variance == 1.4375F);

  // Outside training they take the batch's place and stay as they are.
  const Block& gamma = trial.network.parameters().blocks()[0];
  const Block& beta = trial.network.parameters().blocks()[1];
  part(trial.theta.view(), gamma)[0] = 2;
  part(trial.theta.view(), beta)[0] = -1;
  const std::vector<float> outputs = trial.outputs(false);
  // 2 (x − 0.875)/√(1.4375 + 2⁻¹⁰) − 1, with three roundings to float: of the deviation's inverse, and of y.
  CHECK(outputs[0] == Approx(2 * 0.125 / std::sqrt(1.4375 + 0x1p-10) - 1).epsilon(0x1p-22));
  CHECK(outputs[1] == Approx(2 * 2.125 / std::sqrt(1.4375 + 0x1p-10) - 1).epsilon(0x1p-22));
  CHECK(mean == 0.875F);
}

TEST_CASE("a single value a channel has no variance: the output is beta, and the running variance gets 0",
          "[batch_norm]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  Trial trial(backend, {.layers = {layer("batch_norm")}, .in = {2, 1, 1}, .batch = 1}, reducer);
  const Block& variance = trial.network.statistics().block("batch_norm1.variance");
  const float before = part(trial.statistics.view(), variance)[0];
  const std::vector<float> outputs = trial.outputs(true);
  const View beta = part(View(trial.theta.view()), trial.network.parameters().block("batch_norm1.beta"));
  CHECK(outputs == std::vector<float>(beta.begin(), beta.end()));
  CHECK(part(trial.statistics.view(), variance)[0] == Approx(0.9 * before).epsilon(0x1p-23));
}

TEST_CASE("a channel of large mean keeps its variance", "[batch_norm]") {
  // 4096 ± 1: variance 1 out of squares of 2²⁴, in double.
  ReferenceBackend backend;
  LocalReducer reducer;
  LayerSettings norm = layer("batch_norm");
  Trial trial(backend, {.layers = {norm}, .in = {1, 1, 1}, .batch = 2}, reducer);
  trial.features = {4095, 4097};
  part(trial.theta.view(), trial.network.parameters().blocks()[0])[0] = 1;
  part(trial.theta.view(), trial.network.parameters().blocks()[1])[0] = 0;
  const std::vector<float> outputs = trial.outputs(true);
  CHECK(outputs[0] == Approx(-1 / std::sqrt(1 + 1e-5)).epsilon(0x1p-22));
  CHECK(outputs[1] == Approx(1 / std::sqrt(1 + 1e-5)).epsilon(0x1p-22));
}

}  // namespace
}  // namespace unisono::nn
