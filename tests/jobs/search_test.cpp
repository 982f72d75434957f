#include "unisono/jobs/jobs.hpp"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "expect.hpp"
#include "small_runs.hpp"
#include "trials/trial_job.hpp"

namespace unisono::jobs {
namespace {

using testing::bytes_of;
using testing::ScratchFolder;

/// A search for the rate of a small perceptron.
ConfigText search_config(const std::string& set, const std::vector<std::string>& overrides = {}) {
  return {"search.toml",
          "name = \"small\"\n"
          "[data]\npath = \"" +
              set +
              "\"\n"
              "[model]\nkind = \"network\"\nloss = \"softmax_cross_entropy\"\n"
              "layers = [{ kind = \"dense\", units = 6 }, { kind = \"relu\" }, { kind = \"dense\", units = 2 }]\n"
              "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.1\n"
              "[train]\nepochs = 2\nbatch_size = 8\n"
              "[search]\nmethod = \"random\"\ntrials = 12\nkeep = \"none\"\n"
              "[search.space]\n\"optimizer.learning_rate\" = { log = [1e-3, 1.0] }\n"
              "\"model.layers[0].units\" = [4, 6, 8]\n",
          overrides};
}

/// Searches on so many ranks, which are threads. \return the table
std::string table_on(int ranks, const ScratchFolder& folder, const ConfigText& config) {
  const std::string output = folder.path("search-" + std::to_string(ranks));
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    session::Job job(world, log);
    EXPECT(search(job, config, {}, {.output = output, .existing = records::Existing::overwrite}) ==
           session::RunStatus::complete);
  });
  return bytes_of(output + "/trials.csv");
}

TEST_CASE("a search gives the same table on one, two and four ranks", "[long][search]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  for (const std::string method : {"random", "sobol", "tpe"}) {
    std::vector<std::string> keys = {"search.method=\"" + method + "\""};
    if (method == "tpe") keys.emplace_back("search.lookahead=3");
    const ConfigText config = search_config(points, keys);
    const std::string one = table_on(1, folder, config);
    CHECK(std::count(one.begin(), one.end(), '\n') == 13);
    CHECK(table_on(2, folder, config) == one);
    CHECK(table_on(4, folder, config) == one);
  }
}

TEST_CASE("two ranks together train the trials that one group of two trains", "[search]") {
  const ScratchFolder folder;
  const ConfigText config = search_config(testing::make_points(folder), {"search.ranks_per_trial=2"});
  CHECK(table_on(2, folder, config) == table_on(4, folder, config));
}

TEST_CASE("a search over other data settings opens these sets", "[search]") {
  const ScratchFolder folder;
  const ConfigText config =
      search_config(testing::make_points(folder),
                    {"search.method=\"grid\"", "search.space={ \"data.normalization\" = [\"none\", \"feature\"] }"});
  const std::string table = table_on(2, folder, config);
  CHECK(std::count(table.begin(), table.end(), '\n') == 3);
  CHECK(table.find("refused") == std::string::npos);
}

TEST_CASE("ratings are searched over one copy in memory, whatever the seeds of the trials", "[search]") {
  const ScratchFolder folder;
  const ConfigText config{"ratings.toml",
                          "name = \"ratings\"\n[data]\npath = \"" + testing::make_ratings(folder) +
                              "\"\nvalidation_fraction = 0.2\n"
                              "[model]\nkind = \"factorization\"\ndimension = 4\n"
                              "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.05\n"
                              "[train]\nepochs = 2\n[strategy]\nkind = \"serial\"\n"
                              "[search]\nmethod = \"random\"\ntrials = 4\nkeep = \"none\"\n"
                              "[search.space]\n\"optimizer.learning_rate\" = { log = [1e-2, 0.1] }\n",
                          {}};
  CHECK(table_on(1, folder, config) == table_on(3, folder, config));
}

std::size_t bytes_in_use() { return ::mallinfo2().uordblks; }

TEST_CASE("four trials side by side leave nothing in memory", "[long][search]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const auto trials = [&](int count) {
    return search_config(points, {"search.trials=" + std::to_string(count), "train.epochs=1"});
  };
  table_on(4, folder, trials(100));  // what is made once
  const std::size_t before = bytes_in_use();
  table_on(4, folder, trials(1000));
  // A leak of 100 bytes a trial would be 90,000 more than the first search left.
  CHECK(bytes_in_use() < before + 50'000);
}

TEST_CASE("a cross-validation gives the same tables on any number of ranks", "[search]") {
  const ScratchFolder folder;
  const ConfigText config = search_config(testing::make_points(folder), {"train.epochs=3"});
  std::vector<std::string> tables;
  for (const int ranks : {1, 2, 3}) {
    const std::string output = folder.path("folds-" + std::to_string(ranks));
    comm::run_as_threads(ranks, [&](comm::Communicator& world) {
      Log log(world.rank(), false);
      session::Job job(world, log);
      EXPECT(cross_validate(job, config, {}, {.output = output}) == session::RunStatus::complete);
    });
    tables.push_back(bytes_of(output + "/folds.csv") + bytes_of(output + "/predictions.csv"));
  }
  CHECK(tables[0] == tables[1]);
  CHECK(tables[0] == tables[2]);
}

TEST_CASE("ranks that cannot be divided into groups are refused", "[search]") {
  comm::run_as_threads(3, [](comm::Communicator& world) {
    Log log(world.rank(), false);
    const session::Job job(world, log);
    EXPECT(slot_shape(job, 3, 1, false).ranks == 3);
    bool refused = false;
    try {
      slot_shape(job, 2, 1, false);
    } catch (const ConfigError&) {
      refused = true;
    }
    EXPECT(refused);
  });
}

}  // namespace
}  // namespace unisono::jobs
