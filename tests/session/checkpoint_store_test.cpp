#include "checkpoint/checkpoint_store.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <expect.hpp>
#include <filesystem>
#include <thread>
#include <vector>

#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::sample_header;
using testing::SampleModel;
using testing::SampleState;
using testing::ScratchFolder;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& path : checkpoints_in(folder)) names.push_back(std::filesystem::path(path).filename());
  return names;
}

void write_step(CheckpointStore& store, const SampleModel& model, std::int64_t step, bool best = false) {
  SampleState state(model);
  store.write(testing::sample_header(model, step), state.held(), best);
}

void damage(const std::string& path) {
  std::string bytes = testing::bytes_of(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("the last checkpoints are kept, and the best one", "[checkpoint_store]") {
  const SampleModel model;
  for (const int ranks : {1, 3}) {
    const ScratchFolder folder;
    comm::run_as_threads(ranks, [&](comm::Communicator& world) {
      CheckpointStore store(world, folder.path("c"), {.keep = 2, .best = {}});
      for (const std::int64_t step : {10, 20, 30, 40}) write_step(store, model, step, step == 20);
      store.finish();
    });
    CHECK(names_in(folder.path("c")) == std::vector<std::string>{"step-000000040.h5", "step-000000030.h5", "best.h5"});
    CHECK(read_header(folder.path("c/best.h5")).step == 20);
  }
}

TEST_CASE("a run that stops early goes back to its best checkpoint, which is then the newest one",
          "[checkpoint_store]") {
  const SampleModel model;
  for (const std::int64_t best : {20, 30}) {  // one that was removed, and one that is still there
    const ScratchFolder folder;
    comm::run_as_threads(2, [&](comm::Communicator& world) {
      CheckpointStore store(world, folder.path("c"), {.keep = 2, .best = {}});
      for (const std::int64_t step : {10, 20, 30, 40}) write_step(store, model, step, step == best);
      store.go_back_to_best(best);
    });
    const auto names = names_in(folder.path("c"));
    REQUIRE(names.size() == 2);
    CHECK(read_header(folder.path("c/" + names.front())).step == best);
    CHECK(names.back() == "best.h5");
    CHECK_FALSE(std::filesystem::exists(folder.path("c/" + names.front() + ".tmp")));
  }
}

TEST_CASE("ranks go on with their steps while a checkpoint is written, until all know that it is",
          "[checkpoint_store]") {
  const SampleModel model;
  const ScratchFolder folder;
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    CheckpointStore store(world, folder.path(), {});
    write_step(store, model, 10);
    bool is_there = false;  // for all ranks: one may look before the file has its name, and another one after it
    for (int step = 0; step < 5000 && !is_there; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      store.advance();
      is_there = world.max(names_in(folder.path()).empty() ? 1 : 0) == 0;
    }
    EXPECT(names_in(folder.path()).size() == 1);
  });
}

TEST_CASE("what is not finished when a run ends with an error leaves nothing behind", "[checkpoint_store]") {
  const SampleModel model;
  const ScratchFolder folder;
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    CheckpointStore store(world, folder.path(), {});
    write_step(store, model, 10);
  });
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("the newest checkpoint is the one of the latest step, also beyond nine digits", "[checkpoint_store]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  Log log(0, false);
  CheckpointStore store(*world, folder.path(), {.keep = 3, .best = {}});
  CHECK_FALSE(store.newest(log).has_value());
  for (const std::int64_t step : {999'999'999LL, 1'000'000'000LL}) write_step(store, model, step);
  store.finish();
  CHECK(store.newest(log)->header.step == 1'000'000'000);
}

TEST_CASE("a damaged checkpoint is passed over for the one before it, by name", "[checkpoint_store]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  Log log(0, false);
  log.add_file(folder.path("log.txt"));
  CheckpointStore store(*world, folder.path("c"), {.keep = 3, .best = {}});
  for (const std::int64_t step : {10, 20, 30}) write_step(store, model, step);
  store.finish();
  damage(folder.path("c/step-000000030.h5"));
  comm::run_as_threads(2, [&](comm::Communicator& ranks) {
    Log quiet(ranks.rank(), false);
    EXPECT(CheckpointStore(ranks, folder.path("c"), {}).newest(quiet)->header.step == 20);
  });
  CHECK(store.newest(log)->header.step == 20);
  CHECK_THAT(testing::bytes_of(folder.path("log.txt")), Contains("step-000000030.h5 is damaged"));

  damage(folder.path("c/step-000000020.h5"));
  damage(folder.path("c/step-000000010.h5"));
  CHECK_THROWS_AS(store.newest(log), CheckpointError);
  CHECK_THROWS_WITH(store.newest(log), Contains("all 3 checkpoints are damaged"));
}

TEST_CASE("a damaged checkpoint of a later step never outlives the ones that are written after it",
          "[checkpoint_store]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  CheckpointStore store(*world, folder.path(), {.keep = 2, .best = {}});
  for (const std::int64_t step : {10, 45}) write_step(store, model, step);
  store.finish();
  damage(folder.path("step-000000045.h5"));
  for (const std::int64_t step : {20, 30}) write_step(store, model, step);  // the run went on from step 10
  store.finish();
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-000000030.h5", "step-000000020.h5"});
}

TEST_CASE("the best checkpoint is the last resort", "[checkpoint_store]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  Log log(0, false);
  CheckpointStore store(*world, folder.path(), {.keep = 1, .best = {}});
  write_step(store, model, 10, true);
  write_step(store, model, 20);
  store.finish();
  damage(folder.path("step-000000020.h5"));
  CHECK(store.newest(log)->header.step == 10);
}

TEST_CASE("what an interrupted writing left is removed, and never taken for a checkpoint", "[checkpoint_store]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  Log log(0, false);
  folder.file("step-000000050.h5.tmp", "half");
  CheckpointStore store(*world, folder.path(), {});
  CHECK(names_in(folder.path()).empty());
  CHECK_FALSE(std::filesystem::exists(folder.path("step-000000050.h5.tmp")));
  CHECK_FALSE(store.newest(log).has_value());
}

TEST_CASE("an error of the writing comes with the next checkpoint, which can be written", "[checkpoint_store]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  CheckpointStore store(*world, folder.path("c"), {});
  write_step(store, model, 10);
  store.finish();
  std::filesystem::create_directories(folder.path("c/step-000000020.h5/in the way"));
  write_step(store, model, 20);
  CHECK_THROWS_AS(store.finish(), OutputError);
  CHECK(read_header(folder.path("c/step-000000010.h5")).step == 10);
}

}  // namespace
}  // namespace unisono::session
