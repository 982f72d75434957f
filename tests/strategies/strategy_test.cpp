#include "unisono/strategies/strategy.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "least_squares.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

StrategySettings parse(const std::string& toml) {
  StrategySettings settings;
  parse_config({.path = "test.toml", .text = toml, .overrides = {}},
               [&](ConfigVisitor& visitor) { settings.describe(visitor); });
  return settings;
}

constexpr double kPause = 0.02;  ///< seconds

void pause() { std::this_thread::sleep_for(std::chrono::duration<double>(kPause)); }

/// Takes its time where `slow` says so.
class SlowModel final : public models::Model {
 public:
  SlowModel(Index inputs, bool slow) : model_(inputs), slow_(slow) {}
  const ParameterLayout& layout() const override { return model_.layout(); }
  const ParameterLayout& statistics_layout() const override { return model_.statistics_layout(); }
  void initialise(std::uint64_t, models::ModelState) const override {}
  void loss_and_gradient(const data::Batch& batch, float scale, models::ModelState state, MutableView gradient,
                         kernels::Write write, const models::GradientReady& ready, kernels::LossSums& sums) override {
    if (slow_) pause();
    model_.loss_and_gradient(batch, scale, state, gradient, write, ready, sums);
  }
  void evaluate(const data::Batch&, models::ModelState, kernels::LossSums&) override {}
  void predict(const data::Batch&, models::ModelState, MutableView) override {}
  Index output_size() const override { return 1; }
  std::vector<models::Metric> metrics(const kernels::LossSums&) const override { return {}; }
  std::vector<models::LayerSummary> summary(Index) const override { return {}; }
  double flops_per_example() const override { return 0; }
  Index workspace_bytes(Index) const override { return 0; }

 private:
  LeastSquares model_;
  bool slow_;
};

/// Two ranks, four steps.
Training slow_training(const std::string& kind) {
  Training training{.model = least_squares(), .ranks = 2, .batch_size = 2};
  training.strategy.kind = kind;
  training.strategy.period = 1;
  return training;
}

const Examples& eight_examples() {
  static const Examples examples = random_examples(8, {.channels = 2}, 0);
  return examples;
}

}  // namespace

TEST_CASE("a strategy's table is read as users write it", "[strategy][config]") {
  CHECK(parse("kind = 'allreduce'\n").kind == "allreduce");
  const StrategySettings settings = parse("kind = 'averaging'\nperiod = 32\noptimizer_state = 'reset'\n");
  CHECK(settings.period == 32);
  CHECK(settings.optimizer_state == "reset");
  CHECK(settings.allreduce_epochs == 0);
}

TEST_CASE("what a strategy cannot mean is refused", "[strategy][config]") {
  for (const char* wrong : {"kind = 'allreduce'\nperiod = 4", "kind = 'averaging'\nperiod = 0",
                            "kind = 'averaging'\noptimizer_state = 'drop'", "kind = 'averaging'\nallreduce_epochs = -1",
                            "kind = 'gossip'"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse(wrong), ConfigError);
  }
  CHECK_THROWS_AS(make_strategy({.kind = "gossip"}), ConfigError);
  CHECK_THROWS_WITH(make_strategy({.kind = "gossip"}), Catch::Contains("gossip") && Catch::Contains("averaging"));
}

TEST_CASE("strategies say what norms and checkpoints must know of them", "[strategy]") {
  CHECK(make_strategy({.kind = "allreduce"})->steps_together());
  CHECK(!make_strategy({.kind = "allreduce"})->optimizer_state_is_local());
  CHECK(!make_strategy({.kind = "averaging"})->steps_together());
  CHECK(!make_strategy({.kind = "averaging"})->optimizer_state_is_local());
  CHECK(make_strategy({.kind = "averaging", .optimizer_state = "keep"})->optimizer_state_is_local());
}

TEST_CASE("seconds of a slow rank are its computation, and the others' straggler wait", "[strategy][seconds]") {
  for (const char* kind : {"allreduce", "averaging"}) {
    INFO(kind);
    Training training = slow_training(kind);
    auto number = std::make_shared<std::atomic<int>>(0);  // one of the two ranks is slow, whichever comes first
    training.model = [number](const models::ModelInputs& inputs, const models::ModelContext&) {
      return std::make_unique<SlowModel>(inputs.features.size(), (*number)++ == 0);
    };
    const auto outcome = train(eight_examples(), training);
    const bool first_is_slow = outcome[0].seconds.compute > outcome[1].seconds.compute;
    const Outcome& slow = outcome[first_is_slow ? 0 : 1];
    const Outcome& fast = outcome[first_is_slow ? 1 : 0];
    // A pause is never shorter than asked for. The fast rank may begin a step late on a busy machine: half is safe.
    CHECK(slow.seconds.compute >= 4 * kPause);
    CHECK(fast.seconds.straggler_wait >= 2 * kPause);
    for (const Outcome& rank : outcome) CHECK(rank.seconds.sum() <= rank.total_seconds);
  }
}

TEST_CASE("seconds that the source makes its rank wait are input", "[strategy][seconds]") {
  for (const char* kind : {"allreduce", "averaging"}) {
    INFO(kind);
    Training training = slow_training(kind);
    training.source = [](const data::SourceOptions& options) {
      return std::make_unique<PausingSource>(eight_examples(), options, pause);
    };
    for (const Outcome& rank : train(eight_examples(), training)) {
      CHECK(rank.seconds.input >= 4 * kPause);
      CHECK(rank.seconds.sum() <= rank.total_seconds);
      CHECK(rank.seconds.compute >= 0);
      CHECK(rank.seconds.exposed_communication >= 0);
      CHECK(rank.seconds.optimizer >= 0);
    }
  }
}

}  // namespace unisono::strategies
