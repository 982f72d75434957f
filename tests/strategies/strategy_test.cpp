#include "unisono/strategies/strategy.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "averaging.hpp"
#include "hogwild.hpp"
#include "least_squares.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr double kPause = 0.02;  ///< seconds

void pause() { std::this_thread::sleep_for(std::chrono::duration<double>(kPause)); }

/// Takes its time where `slow` says so.
class SlowModel final : public models::Model {
 public:
  SlowModel(Index inputs, bool slow) : model_(inputs), slow_(slow) {}
  const ParameterLayout& layout() const override { return model_.layout(); }
  const ParameterLayout& statistics_layout() const override { return model_.statistics_layout(); }
  void initialise(std::uint64_t, models::ModelState) const override {}
  void loss_and_gradient(const data::Batch& batch, float scale, models::ModelState state,
                         const models::GradientTarget& target, kernels::LossSums& sums) override {
    if (slow_) pause();
    model_.loss_and_gradient(batch, scale, state, target, sums);
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
  training.strategy = strategy_with({.kind = kind}, AveragingSettings{.period = 1});
  return training;
}

const Examples& eight_examples() {
  static const Examples examples = random_examples(8, {.channels = 2}, 0);
  return examples;
}

}  // namespace

TEST_CASE("a strategy's table is read as users write it", "[strategy][config]") {
  CHECK(strategy_of("kind = 'allreduce'").kind == "allreduce");
  const auto own =
      strategy_of("kind = 'averaging', period = 32, optimizer_state = 'reset'").own.of<AveragingSettings>();
  CHECK(own.period == 32);
  CHECK(own.optimizer_state == StateAtAverage::reset);
  CHECK(own.allreduce_epochs == 0);
}

TEST_CASE("a strategy's own settings go with a copy, and are nobody else's", "[strategy][config]") {
  StrategySettings settings = strategy_of("kind = 'averaging', period = 32");
  const StrategySettings copy = settings;
  settings.own.of<AveragingSettings>().period = 8;
  CHECK(copy.own.of<AveragingSettings>().period == 32);
  CHECK(copy.own.of<HogwildSettings>().period == 16);
}

TEST_CASE("the table says what others ask about a strategy", "[strategy]") {
  const auto names = [](bool StrategyTraits::*trait) {
    std::string all;
    for (const StrategyKind& kind : strategy_kinds()) all += kind.traits.*trait ? std::string(kind.name) + " " : "";
    return all;
  };
  CHECK(names(&StrategyTraits::steps_together) == "allreduce batch serial ");
  CHECK(names(&StrategyTraits::needs_gradient) ==
        "allreduce batch elastic_averaging gossip gossip_async gradient_sharing ");
  CHECK(names(&StrategyTraits::divides_model) == "stratified ");
  CHECK(names(&StrategyTraits::whole_batch) == "batch ");
  CHECK(names(&StrategyTraits::has_servers) == "elastic_averaging parameter_server ");
  CHECK(names(&StrategyTraits::at_own_pace) == "elastic_averaging gossip_async gradient_sharing parameter_server ");
  CHECK(names(&StrategyTraits::shares_model) == "feature_parallel hogwild private_copies stratified ");
  CHECK(names(&StrategyTraits::has_one_model) == "allreduce averaging batch serial ");
  for (const StrategyKind& kind : strategy_kinds()) {
    const StrategySettings settings{.kind = std::string(kind.name)};
    CHECK(&kind_of(settings) == &kind);
    CHECK(make_strategy(settings)->steps_together() == kind.traits.steps_together);
    CHECK(!kind.relief(settings, false).empty());
  }
}

TEST_CASE("vectors that a strategy keeps are declared with those who hold values of their own", "[strategy]") {
  const auto kept = make_strategy({.kind = "elastic_averaging"})->state_vectors();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].name == "replica");
  CHECK(kept[0].scope == parallel::StateScope::replica);
  CHECK(make_strategy({.kind = "averaging"})->state_vectors().empty());
  for (const char* kind : {"gossip", "gossip_async"}) {
    const auto gossips = make_strategy({.kind = kind})->state_vectors();
    REQUIRE(gossips.size() == 2);
    CHECK(gossips[1].of == parallel::StateOf::statistics);
    CHECK(parallel::vectors_of_parameters(gossips) == 1);
  }
}

TEST_CASE("advice for servers depends on how they are used", "[strategy]") {
  const auto relief = [](const std::string& keys, bool in_place) {
    const StrategySettings settings = strategy_of(keys);
    return kind_of(settings).relief(settings, in_place);
  };
  CHECK(relief("kind = 'parameter_server'", false) == "try prefetch = true, or a longer pull_period and push_period");
  CHECK(relief("kind = 'parameter_server', servers = 2, prefetch = true, consistency = 'synchronous'", false) ==
        "try more servers (strategy.servers), or a larger train.batch_size");
  CHECK(relief("kind = 'parameter_server'", true) == "try a larger train.batch_size");
  CHECK(relief("kind = 'elastic_averaging', servers = 1", false) ==
        "try more servers (strategy.servers), or a longer period");
}

TEST_CASE("what a strategy cannot mean is refused", "[strategy][config]") {
  for (const char* wrong : {"kind = 'allreduce', period = 4", "kind = 'averaging', period = 0",
                            "kind = 'averaging', optimizer_state = 'drop'", "kind = 'averaging', allreduce_epochs = -1",
                            "kind = 'gossip', topology = 'star'", "kind = 'gossip', order = 'adapt'",
                            "kind = 'gossip', momentum = 'average'", "kind = 'gossip', period = 0",
                            "kind = 'gossip', optimizer_state = 'keep'", "kind = 'rumour'"}) {
    INFO(wrong);
    CHECK_THROWS_AS(strategy_of(wrong), ConfigError);
  }
  CHECK_THROWS_AS(make_strategy({.kind = "rumour"}), ConfigError);
  CHECK_THROWS_WITH(
      make_strategy({.kind = "rumour"}),
      Catch::Contains("rumour") &&
          Catch::Contains("allreduce, averaging, batch, elastic_averaging, feature_parallel, gossip, gossip_async, "
                          "gradient_sharing, hogwild, parameter_server, private_copies, serial or stratified"));
}

TEST_CASE("strategies say what norms and checkpoints must know of them", "[strategy]") {
  CHECK(make_strategy({.kind = "allreduce"})->steps_together());
  CHECK(!make_strategy({.kind = "allreduce"})->optimizer_state_is_local());
  CHECK(!make_strategy({.kind = "averaging"})->steps_together());
  CHECK(!make_strategy({.kind = "averaging"})->optimizer_state_is_local());
  CHECK(make_strategy(strategy_of("kind = 'averaging', optimizer_state = 'keep'"))->optimizer_state_is_local());
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
