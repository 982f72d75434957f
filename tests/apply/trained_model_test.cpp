#include "unisono/apply/trained_model.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "expect.hpp"
#include "scratch_folder.hpp"
#include "small_runs.hpp"

namespace unisono::apply {
namespace {

/// A run's folder with weights that are averaged, trained by so many stages, each a rank.
std::string trained_by(const testing::ScratchFolder& folder, const std::string& points, int stages) {
  const std::string run = folder.path(std::to_string(stages) + "-stages");
  comm::run_as_threads(stages, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    session::Job job(world, log);
    session::RunOptions options = testing::quiet();
    options.results = session::Results::in_folder;
    const std::vector<std::string> overrides = {"output=\"" + run + "\"", "train.weight_average=0.9",
                                                "train.micro_batches=2", "replica.stages=" + std::to_string(stages)};
    session::run(job, world, testing::perceptron(points, overrides), options);
  });
  return run;
}

/// θ of a model that is applied by so many ranks, as each of them has it.
std::vector<std::vector<float>> applied_by(int ranks, const std::string& run) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(ranks));
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    ApplyOptions options;
    options.model = run;
    options.threads = 1;
    const TrainedModel model(world, options, log, TrainedModel::With::nothing);
    EXPECT(model.parts->stages == nullptr);
    const View parameters = model.parts->parameters.view();
    all[static_cast<std::size_t>(world.rank())].assign(parameters.begin(), parameters.end());
  });
  return all;
}

TEST_CASE("a pipeline's checkpoint is applied by ranks that hold the whole model", "[stages]") {
  const testing::ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const std::vector<float> expected = applied_by(1, trained_by(folder, points, 1)).front();
  CHECK(std::ranges::count(expected, 0.0F) < static_cast<std::ptrdiff_t>(expected.size()));
  const std::string run = trained_by(folder, points, 2);
  for (const int ranks : {1, 2, 3}) {
    for (const std::vector<float>& parameters : applied_by(ranks, run)) CHECK(parameters == expected);
  }
}

}  // namespace
}  // namespace unisono::apply
