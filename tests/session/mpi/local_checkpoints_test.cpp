#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "shared_folder.hpp"
#include "small_runs.hpp"
#include "unisono/comm/mpi.hpp"

namespace unisono::session {
namespace {

/// How a run is trained, and whether on ratings.
struct Training {
  std::vector<std::string> settings;
  bool of_ratings = false;
};

TEST_CASE("runs on several nodes that write to a local disk first, and go on from there, give the same bits", "[mpi]") {
  int argc = 0;
  char** argv = nullptr;
  comm::MpiSession session(argc, argv);
  const auto world = session.world({.ranks_per_node = 1});
  const testing::SharedFolder folder(*world);
  if (world->is_root()) {
    const testing::ScratchFolder own;
    std::filesystem::copy_file(testing::make_points(own), folder.path("points.h5"));
    std::filesystem::copy_file(testing::make_ratings(own), folder.path("ratings.h5"));
  }
  world->barrier();
  Log log(world->rank(), false);
  Job job(*world, log);
  std::vector<Training> trainings = {
      {{}},
      {{"optimizer.kind=\"adam\"", "optimizer.learning_rate=0.01", "strategy.kind=\"averaging\"", "strategy.period=3",
        "strategy.optimizer_state=\"keep\""}}};
  if (world->size() % 2 == 0) trainings.push_back({{"replica.stages=2", "train.micro_batches=4"}});
  if (world->size() <= 2) trainings.push_back({{}, true});  // whose grid has two rows
  for (const Training& training : trainings) {
    const auto trained = [&](const std::string& output, std::vector<std::string> more, records::Existing existing) {
      more.push_back("output=\"" + folder.path(output) + '"');
      more.insert(more.end(), training.settings.begin(), training.settings.end());
      const settings::Config config = training.of_ratings ? testing::factorization(folder.path("ratings.h5"), more)
                                                          : testing::perceptron(folder.path("points.h5"), more);
      std::vector<float> parameters;
      RunOptions options = testing::quiet(&parameters);
      options.results = Results::in_folder;
      options.existing = existing;
      CHECK(run(job, *world, config, options).status == RunStatus::complete);
      return parameters;
    };
    const std::string local = "checkpoint.local=\"" + folder.path("disk0") + '"';
    const auto plain = trained("plain", {}, records::Existing::overwrite);
    trained("local", {local, "train.epochs=1"}, records::Existing::overwrite);
    CHECK(trained("local", {local}, records::Existing::resume) == plain);
    world->barrier();
  }
  if (world->is_root()) {
    namespace fs = std::filesystem;
    CHECK(std::none_of(fs::recursive_directory_iterator(folder.path("disk0")), {},
                       [](const auto& entry) { return entry.is_regular_file(); }));
  }
  world->barrier();
}

}  // namespace
}  // namespace unisono::session
