#include <catch2/catch.hpp>

#include "../training.hpp"
#include "averaging.hpp"

namespace unisono::strategies {
namespace {

void check_refused(const std::string& keys, const std::string& message) {
  INFO(keys);
  CHECK_THROWS_WITH(strategy_of("kind = 'averaging', " + keys), Catch::Contains(message));
}

}  // namespace

TEST_CASE("averaging takes its settings from the config", "[averaging][settings]") {
  StrategySettings diloco = strategy_of(
      "kind = 'averaging', period = 100, node_period = 20, overlap = true, optimizer_state = 'keep', outer.kind = "
      "'nesterov'");
  const auto& nesterov = diloco.own.of<AveragingSettings>();
  CHECK(nesterov.node_period == 20);
  CHECK(nesterov.overlap);
  CHECK(nesterov.outer.rate() == 0.7);
  CHECK(nesterov.outer.momentum() == 0.9);
  StrategySettings adaptive = strategy_of("kind = 'averaging', period = 'adaptive', outer.kind = 'sgd'");
  const auto& sgd = adaptive.own.of<AveragingSettings>();
  CHECK(sgd.is_adaptive());
  CHECK(sgd.outer.rate() == 1);
  CHECK(sgd.outer.momentum() == 0);
}

TEST_CASE("settings of averages that exclude each other are refused by name", "[averaging][settings]") {
  check_refused("period = 'adaptve'", "is 'adaptve', but must be an integer or 'adaptive'");
  check_refused("period = 0", "must be at least 1");
  check_refused("first_period = 8", "first_period is the first of adaptive periods");
  check_refused("period = 16, node_period = 5", "node_period is 5, but must divide the period, 16");
  check_refused("period = 16, node_period = 32", "node_period is 32, but must divide the period, 16");
  check_refused("period = 'adaptive', node_period = 4", "period = \"adaptive\" changes");
  check_refused("period = 'adaptive', overlap = true, optimizer_state = 'keep'", "overlap applies an average a period");
  check_refused("overlap = true", "set optimizer_state = \"keep\"");
  check_refused("overlap = true, optimizer_state = 'reset'", "set optimizer_state = \"keep\"");
  check_refused("outer.kind = 'nestrov'", "did you mean 'nesterov'?");
  check_refused("outer.kind = 'sgd', outer.momentum = 0.9", "a key of 'nesterov'");
  check_refused("outer.rate = 0.5", "a key of 'sgd', 'nesterov'");
  check_refused("outer.kind = 'nesterov', outer.rate = 0", "must be above 0");
  check_refused("outer.kind = 'nesterov', outer.momentum = 1", "must be");
  CHECK_THROWS_WITH(strategy_of("kind = 'allreduce', overlap = true"), Catch::Contains("a key of 'averaging'"));
}

}  // namespace unisono::strategies
