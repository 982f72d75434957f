#include "unisono/session/run_plan.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "run/summary.hpp"
#include "small_runs.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/optim/optimizer.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;
using testing::perceptron;

settings::Config with_batch(std::int64_t batch_size) {
  settings::Config config;
  config.train.batch_size = batch_size;
  config.data.normalization = data::NormalizationKind::none;
  return config;
}

std::vector<std::string> keys_of(const std::vector<Choice>& choices) {
  std::vector<std::string> keys;
  for (const Choice& choice : choices) keys.push_back(choice.key);
  return keys;
}

using Keys = std::vector<std::string>;

TEST_CASE("the data decide what a config leaves open, and nothing else", "[run_plan]") {
  data::DatasetInfo table;
  table.normalization = data::NormalizationKind::none;
  table.train = 1000;
  CHECK(settle(with_batch(32), table).choices.empty());
  const Settled usual = settle(with_batch(0), table);
  CHECK(usual.config.train.batch_size == 64);
  CHECK(keys_of(usual.choices) == Keys{"train.batch_size"});
  CHECK(usual.choices[0].by == ChosenBy::data);

  data::DatasetInfo rows = table;
  rows.kind = data::SetKind::sparse;
  CHECK(settle(with_batch(0), rows).config.train.batch_size == 4096);
  rows.train = 1'000'001;
  CHECK(settle(with_batch(0), rows).config.train.batch_size == 10'001);
  CHECK(settle(with_batch(7), rows).config.train.batch_size == 7);

  settings::Config open = with_batch(32);
  open.data.normalization = data::NormalizationKind::automatic;
  CHECK(keys_of(settle(open, table).choices) == Keys{"data.normalization"});
  CHECK(settle(with_batch(-1), table).config.train.batch_size == -1);  // which the placement decides
}

TEST_CASE("with strata, a step is a diagonal of the grid", "[run_plan]") {
  data::DatasetInfo ratings;
  ratings.kind = data::SetKind::ratings;
  ratings.train = 101, ratings.grid = 4;
  settings::Config config = with_batch(0);
  config.data.order = data::Order::strata;
  CHECK(settle(config, ratings).config.train.batch_size == 26);
  config.train.batch_size = 26;
  CHECK(settle(config, ratings).choices.empty());
  config.train.batch_size = 27;
  CHECK_THROWS_WITH(settle(config, ratings), Contains("a step is a diagonal of the grid"));
}

TEST_CASE("steps are divided only where the data can be", "[run_plan]") {
  data::DatasetInfo set;
  settings::Config config = with_batch(0);
  config.train.micro_batches = 65;
  CHECK_THROWS_WITH(settle(config, set),
                    Contains("train.micro_batches is larger than the batch, which has 64 examples"));
  config.train.micro_batches = 4;
  CHECK(settle(config, set).config.train.micro_batches == 4);
  set.kind = data::SetKind::text;
  CHECK_THROWS_WITH(settle(config, set), Contains("for which steps are not divided into micro-batches"));
}

TEST_CASE("a run's plan has the config in force, the set and the group, and says who decided what", "[run_plan]") {
  const testing::ScratchFolder folder;
  const settings::Config asked = perceptron(testing::make_points(folder), {"train.batch_size=0"});
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  const RunPlan plan = plan_run(job, *world, asked, testing::quiet());
  CHECK(plan.config.train.batch_size == 64);
  CHECK(keys_of(plan.choices) == Keys{"data.normalization", "train.batch_size"});
  CHECK(plan.data().info().train == 40);
  CHECK(&plan.group == world.get());
  CHECK(plan.given_rank == 0);
  CHECK(plan.folder == nullptr);
  CHECK(plan.trial_of_threads() == nullptr);
  // What was decided is a config in which nothing is open.
  CHECK(plan_run(job, *world, plan.config, testing::quiet()).choices.empty());

  Summary summary;
  summary.choices = plan.choices;
  const auto chosen = to_json(summary, plan.config)["chosen"];
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0]["value"] == "none");
  CHECK(chosen[1]["key"] == "train.batch_size");
  CHECK(chosen[1]["value"] == 64);
  CHECK(chosen[1]["by"] == "data");
  CHECK_THAT(chosen[1]["why"].get<std::string>(), Contains("table"));
}

TEST_CASE("a folder that cannot be used is an error before the set is read", "[run_plan]") {
  const testing::ScratchFolder folder;
  const settings::Config config = perceptron(folder.path("missing.h5"), {"output=\"" + folder.path("run") + "\""});
  std::filesystem::create_directories(folder.path("run/checkpoints"));
  folder.file("run/summary.json", "{}");
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  CHECK_THROWS_AS(plan_run(job, *world, config, {}), OutputError);
}

}  // namespace
}  // namespace unisono::session
