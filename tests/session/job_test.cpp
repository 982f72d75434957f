#include "unisono/session/job.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "expect.hpp"
#include "small_runs.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/placement.hpp"

namespace unisono::session {
namespace {

using testing::ScratchFolder;

TEST_CASE("a job keeps the set of each group's last run open", "[job]") {
  const ScratchFolder folder;
  data::DataSettings settings;
  settings.path = testing::make_points(folder);
  comm::run_as_threads(4, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    Job job(world, log);
    comm::Communicator& half = job.split(world.rank() / 2, world.rank());
    EXPECT(half.size() == 2);
    const SharedDataset* const first = job.open_set(half, settings, 1).get();
    EXPECT(job.open_set(half, settings, 1).get() == first);
    EXPECT(job.open_set(half, settings, 2).get() == first);  // a table's examples do not depend on the seed
    const auto of_all = job.open_set(world, settings, 1);
    EXPECT(of_all.get() != first);
    data::DataSettings other = settings;
    other.shuffle = false;
    const std::weak_ptr<SharedDataset> before = job.open_set(half, settings, 1);
    job.open_set(half, other, 1);
    EXPECT(before.expired());
    const auto stranger = world.split(0, world.rank());
    const auto strange = job.open_set(*stranger, settings, 1);
    EXPECT(strange != job.open_set(*stranger, settings, 1));
  });
}

TEST_CASE("sets that depend on the seed are opened anew with another one", "[job]") {
  const ScratchFolder folder;
  data::DataSettings settings;
  settings.path = testing::make_ratings(folder);
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  const std::weak_ptr<SharedDataset> first = job.open_set(*world, settings, 1);
  CHECK(job.open_set(*world, settings, 1) == first.lock());
  job.open_set(*world, settings, 2);
  CHECK(first.expired());
}

TEST_CASE("a file that has changed is read anew", "[job]") {
  const ScratchFolder folder, other;
  data::DataSettings settings;
  settings.path = testing::make_points(folder);
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  const std::weak_ptr<SharedDataset> first = job.open_set(*world, settings, 1);
  std::filesystem::rename(testing::make_points(other), settings.path);
  job.open_set(*world, settings, 1);
  CHECK(first.expired());
}

TEST_CASE("groups that run side by side share the node's cores out", "[job]") {
  comm::run_as_threads(4, [](comm::Communicator& world) {
    Log log(world.rank(), false);
    Job job(world, log);
    const RankCores own{cores_of_this_process(), cpu_quotas()};
    comm::Communicator& half = job.split(world.rank() / 2, world.rank());
    EXPECT(job.place().number() == world.rank());
    EXPECT(job.place().ranks().size() == 4);
    EXPECT(place_rank(half, job.place(), 0, log).threads == fair_share(own, {4, own}));
    EXPECT(place_rank(half, NodePlace(half), 0, log).threads == fair_share(own, {2, own}));  // were it alone
  });
}

}  // namespace
}  // namespace unisono::session
