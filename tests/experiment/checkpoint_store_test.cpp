#include "checkpoint_store.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"

namespace unisono {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::sample_checkpoint;
using testing::SampleModel;
using testing::ScratchFolder;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& path : checkpoints_in(folder)) names.push_back(std::filesystem::path(path).filename());
  return names;
}

void write(CheckpointStore& store, const SampleModel& model, std::int64_t step, bool best = false) {
  store.next() = sample_checkpoint(model, step);
  store.write(best);
}

void damage(const std::string& path) {
  std::string bytes = bytes_of(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("the last checkpoints are kept, and the best one", "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model;
  CheckpointStore store(folder.path("c"), {.keep = 2}, model.layout());
  for (const std::int64_t step : {10, 20, 30, 40}) write(store, model, step, step == 20);
  store.finish();
  CHECK(names_in(folder.path("c")) == std::vector<std::string>{"step-000000040.h5", "step-000000030.h5", "best.h5"});
  CHECK(read_checkpoint_header(folder.path("c/best.h5")).step == 20);
  CHECK(store.last() == folder.path("c/step-000000040.h5"));
}

TEST_CASE("the newest checkpoint is the one of the latest step, also beyond nine digits", "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model;
  Log log(0, false);
  CheckpointStore store(folder.path(), {.keep = 3}, model.layout());
  CHECK_FALSE(store.newest(log).has_value());
  for (const std::int64_t step : {999'999'999LL, 1'000'000'000LL}) write(store, model, step);
  store.finish();
  CHECK(store.newest(log)->header.step == 1'000'000'000);
}

TEST_CASE("a damaged checkpoint is passed over for the one before it, by name", "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model;
  Log log(0, false);
  log.add_file(folder.path("log.txt"));
  CheckpointStore store(folder.path("c"), {.keep = 3}, model.layout());
  for (const std::int64_t step : {10, 20, 30}) write(store, model, step);
  store.finish();
  damage(folder.path("c/step-000000030.h5"));
  CHECK(store.newest(log)->header.step == 20);
  CHECK_THAT(bytes_of(folder.path("log.txt")), Contains("step-000000030.h5 is damaged"));

  damage(folder.path("c/step-000000020.h5"));
  damage(folder.path("c/step-000000010.h5"));
  CHECK_THROWS_AS(store.newest(log), CheckpointError);
  CHECK_THROWS_WITH(store.newest(log), Contains("none of 3 checkpoints is whole"));
}

TEST_CASE("a damaged checkpoint of a later step never outlives the ones that are written after it",
          "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model;
  CheckpointStore store(folder.path(), {.keep = 2}, model.layout());
  for (const std::int64_t step : {10, 45}) write(store, model, step);
  store.finish();
  damage(folder.path("step-000000045.h5"));
  for (const std::int64_t step : {20, 30}) write(store, model, step);  // the run went on from step 10
  store.finish();
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-000000030.h5", "step-000000020.h5"});
}

TEST_CASE("the best checkpoint is the last resort", "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model;
  Log log(0, false);
  CheckpointStore store(folder.path(), {.keep = 1}, model.layout());
  write(store, model, 10, true);
  write(store, model, 20);
  store.finish();
  damage(folder.path("step-000000020.h5"));
  CHECK(store.newest(log)->header.step == 10);
}

TEST_CASE("a checkpoint of another model is no damage: it ends the search", "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model, wider(4);
  Log log(0, false);
  CheckpointStore store(folder.path(), {}, model.layout());
  write(store, model, 10);
  store.finish();
  const CheckpointStore other(folder.path(), {}, wider.layout());
  CHECK_THROWS_WITH(other.newest(log), Contains("another model"));
}

TEST_CASE("what an interrupted writing left is removed, and never taken for a checkpoint", "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model;
  Log log(0, false);
  folder.file("step-000000050.h5.tmp", "half");
  CheckpointStore store(folder.path(), {}, model.layout());
  CHECK(names_in(folder.path()).empty());
  CHECK_FALSE(std::filesystem::exists(folder.path("step-000000050.h5.tmp")));
  CHECK_FALSE(store.newest(log).has_value());
}

TEST_CASE("an error of the writing in the background comes with the next checkpoint", "[checkpoint_store]") {
  const ScratchFolder folder;
  const SampleModel model;
  CheckpointStore store(folder.path("c"), {}, model.layout());
  write(store, model, 10);
  store.finish();
  std::filesystem::create_directory(folder.path("c/step-000000020.h5.tmp"));
  write(store, model, 20);
  CHECK_THROWS_AS(store.next(), OutputError);
  CHECK(read_checkpoint_header(folder.path("c/step-000000010.h5")).step == 10);
}

}  // namespace
}  // namespace unisono
