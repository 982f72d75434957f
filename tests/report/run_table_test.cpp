#include "runs/run_table.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

using Catch::Matchers::Contains;
using testing::ScratchFolder;

records::RunRecord record(const std::string& folder, const std::string& seed, const std::string& rate, double loss) {
  records::RunRecord run;
  run.folder = folder;
  run.status = "complete";
  run.config = {{"name", folder}, {"seed", seed}, {"optimizer.learning_rate", rate}, {"train.epochs", "2"}};
  run.epochs = 2;
  run.ranks = 1;
  run.examples_per_second = 1000 * loss;
  run.metrics = {{"test loss", loss}, {"test accuracy", 0.5}, {"train loss", 0.25}};
  return run;
}

TEST_CASE("an effective config is a list of keys", "[run_table]") {
  const auto entries = records::config_entries(
      "seed = 3\n[model]\nlayers = [\n  { kind = \"relu\" },\n]\n[data.augmentation]\nshift = 1\n");
  CHECK(entries.at("seed") == "3");
  CHECK(entries.at("model.layers") == "[  { kind = \"relu\" },]");
  CHECK(entries.at("data.augmentation.shift") == "1");
}

TEST_CASE("a sample's mean and standard deviation", "[run_table]") {
  const auto [mean, deviation] = mean_and_deviation({1, 2, 6});
  CHECK(mean == 3);
  CHECK(deviation == Approx(std::sqrt((4.0 + 1 + 9) / 2)));
}

TEST_CASE("what is trained, and by which method, comes before what else differs", "[run_table]") {
  std::vector<records::RunRecord> runs = {record("a", "1", "0.1", 1), record("b", "1", "0.2", 1)};
  runs[0].config.insert({{"model.kind", "linear"}, {"strategy.kind", "serial"}, {"data.path", "a.h5"}});
  runs[1].config.insert({{"model.kind", "network"}, {"strategy.kind", "allreduce"}, {"data.path", "b.h5"}});
  CHECK(RunTable(runs).differing ==
        std::vector<std::string>{"strategy.kind", "model.kind", "optimizer.learning_rate", "data.path"});
}

TEST_CASE("a table has what differs, and means over those that differ by the seed alone", "[run_table]") {
  const RunTable table(
      {record("a", "1", "0.1", 1), record("b", "2", "0.1", 3), record("c", "1", "0.2", 5), record("d", "1", "0.2", 7)});
  CHECK(table.differing == std::vector<std::string>{"optimizer.learning_rate"});
  CHECK(table.seeds_differ);
  CHECK(table.metrics == std::vector<std::string>{"train loss", "test loss", "test accuracy"});
  CHECK(table.groups == std::vector<SeedGroup>{{0, 1}});  // c and d have one seed

  const auto json = to_json(table, {{"x", "holds no run"}});
  CHECK(json["runs"][2]["metrics"]["test"]["loss"] == 5);
  CHECK(json["runs"][2]["config"]["optimizer.learning_rate"] == "0.2");
  CHECK(json["groups"][0]["metrics"]["test"]["loss"]["mean"] == 2);
  CHECK(json["skipped"][0]["folder"] == "x");
  CHECK_THAT(to_csv(table),
             Contains("run,status,seed,optimizer.learning_rate,ranks,threads,epochs,steps,train loss,test "
                      "loss,test accuracy,examples_per_second\na,complete,1,0.1,1,0,2,0,0.25,1,0.5,1000\n"));
  CHECK_THAT(to_text(table), Contains("mean ± deviation of 2") && Contains("2 ± 1.4") && Contains("2,000 ± 1,414"));
}

TEST_CASE("runs that are not complete, or ran on other ranks, are in no mean", "[run_table]") {
  records::RunRecord interrupted = record("b", "2", "0.1", 3), two_ranks = record("c", "3", "0.1", 3);
  interrupted.status = "interrupted";
  two_ranks.ranks = 2;
  CHECK(RunTable({record("a", "1", "0.1", 1), interrupted, two_ranks}).groups.empty());
}

TEST_CASE("a run's record is its summary, or its last reports", "[run_table]") {
  const ScratchFolder folder;
  folder.file("config.toml", "name = \"a\"\nseed = 7\n[model]\nkind = \"network\"\n");
  folder.file("metrics.jsonl",
              "{\"event\":\"train\",\"step\":4,\"epoch\":1,\"loss\":2.5,\"learning_rate\":0.1}\n"
              "{\"event\":\"evaluation\",\"step\":4,\"epoch\":1,\"split\":\"test\",\"loss\":3.5}\n{\"event\":\"tra");
  const records::RunRecord killed = records::read_run(folder.path());
  CHECK(killed.status == "unfinished");
  CHECK(killed.seed() == "7");
  CHECK(killed.steps == 4);
  CHECK(killed.metrics == std::map<std::string, double>{{"train loss", 2.5}, {"test loss", 3.5}});

  folder.file("summary.json", R"({"status":"complete","steps":4,"epochs":1,"ranks":2,"train":{"loss":1.5}})");
  CHECK(records::read_run(folder.path()).status == "complete");
  CHECK(records::read_run(folder.path()).metrics == std::map<std::string, double>{{"train loss", 1.5}});
  folder.file("summary.json", R"({"status":"interrupted","steps":2,"train":{"loss":1.5}})");  // it went on since
  CHECK(records::read_run(folder.path()).status == "unfinished");
  folder.file("summary.json", R"({"status":"com)");
  CHECK_THROWS_WITH(records::read_run(folder.path()), Contains("its summary.json is damaged"));
  folder.file("config.toml", "");
  CHECK_THROWS_WITH(records::read_run(folder.path()), Contains("its config.toml is damaged"));
}

TEST_CASE("other folders are no runs", "[run_table]") {
  const ScratchFolder folder;
  CHECK_FALSE(records::holds_run(folder.path()));
  CHECK_THROWS_AS(records::read_run(folder.path()), CheckpointError);
  CHECK_THROWS_WITH(records::read_run(folder.path("none")), Contains("there is no such run"));
}

}  // namespace
}  // namespace unisono::report
