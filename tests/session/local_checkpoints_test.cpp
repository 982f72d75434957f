#include "checkpoint/local_checkpoints.hpp"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <expect.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint_store.hpp"
#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::SampleModel;
using testing::SampleState;
using testing::ScratchFolder;
using Names = std::vector<std::string>;

/// A run's folder c, and a local disk.
struct Disks {
  ScratchFolder scratch;
  std::string disk = scratch.path("disk"), checkpoints = scratch.path("c");

  Disks() { fs::create_directories(disk); }
  settings::CheckpointSettings terms(std::int64_t keep = 2) const { return {.keep = keep, .local = disk, .best = {}}; }
  /// Names of all checkpoints on the local disk, and what else is there.
  Names local() const {
    Names names;
    for (const auto& entry : fs::recursive_directory_iterator(disk)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock") names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  Names in_folder() const {
    Names names;
    for (const auto& entry : fs::directory_iterator(checkpoints)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  std::string log() const { return bytes_of(scratch.path("log.txt")); }
};

void write_step_of(CheckpointStore& store, const SampleModel& model, std::int64_t step, bool best = false) {
  SampleState state(model);
  store.write(testing::sample_header(model, step), state.held(), best);
}

/// Until the write to the local disk is over.
void let_it_settle(CheckpointStore& store) {
  while (store.is_writing()) {
    store.advance();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void wait_until(const std::function<bool()>& holds) {
  for (int i = 0; i < 10000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT(holds());
}

/// A run that wrote steps 10, 20 (the best one), 30, 40 and 50, of which only step 10 could be copied, and was killed:
/// its local files and its note are there. \return what the killed run did not remove
void leave_killed_run(const Disks& disks) {
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  const std::string away = disks.checkpoints + ".away";
  CheckpointStore store(*world, disks.checkpoints, disks.terms());
  write_step_of(store, model, 10);
  let_it_settle(store);
  wait_until([&] { return fs::exists(disks.checkpoints + "/step-000000010.h5") && disks.local().empty(); });
  fs::rename(disks.checkpoints, away);
  for (const std::int64_t step : {20, 30, 40, 50}) {
    write_step_of(store, model, step, step == 20);
    let_it_settle(store);
  }
  CHECK_THROWS_WITH(store.finish(), Contains("a checkpoint could not be copied there: ") && Contains("it is whole in"));
  fs::rename(away, disks.checkpoints);
}

TEST_CASE("checkpoints that are written to a local disk first end as others do, to the byte", "[local_checkpoints]") {
  const SampleModel model;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int ranks_per_node : {0, 1, 2}) {
      for (const bool divided : {false, true}) {
        const Disks disks;
        comm::run_as_threads(
            ranks,
            [&](comm::Communicator& world) {
              const ShardMap map = test::by_columns(model.parameters, world.size());
              std::vector<float> part(static_cast<std::size_t>(map.local(world.rank()).size()));
              std::iota(part.begin(), part.end(), static_cast<float>(1000 * world.rank()));
              SampleState state(model);
              StoredVectors vectors = state.held();
              if (divided) vectors[2] = testing::divided_vector("optimizer/0/velocity", map, world.rank(), part);
              CheckpointStore plain(world, disks.scratch.path("plain"), {.best = {}});
              CheckpointStore local(world, disks.checkpoints, disks.terms());
              for (CheckpointStore* store : {&plain, &local}) {
                store->write(testing::sample_header(model, 10), vectors, true);
                store->finish();
              }
            },
            60, ranks_per_node);
        CHECK(disks.in_folder() == Names{"best.h5", "step-000000010.h5"});
        for (const char* name : {"/step-000000010.h5", "/best.h5"})
          CHECK(bytes_of(disks.checkpoints + name) == bytes_of(disks.scratch.path("plain") + name));
        CHECK(disks.local().empty());
      }
    }
  }
}

TEST_CASE("large parts of other nodes are sent in packets", "[local_checkpoints]") {
  ParameterLayout layout;
  layout.add({.name = "dense.weight", .shape = {700, 1001}, .fan_in = 1001, .fan_out = 700});
  const Disks disks;
  comm::run_as_threads(
      3,
      [&](comm::Communicator& world) {
        const ShardMap map = test::by_columns(layout, world.size());
        std::vector<float> part(static_cast<std::size_t>(map.local(world.rank()).size()));
        std::iota(part.begin(), part.end(), static_cast<float>(1000000 * world.rank()));
        const StoredVectors vectors = {testing::divided_vector("parameters", map, world.rank(), part)};
        CheckpointStore plain(world, disks.scratch.path("plain"), {.best = {}});
        CheckpointStore local(world, disks.checkpoints, disks.terms());
        for (CheckpointStore* store : {&plain, &local}) {
          store->write(testing::sample_header(SampleModel(), 10), vectors, false);
          store->finish();
        }
      },
      60, 1);
  const std::string name = "/step-000000010.h5";
  CHECK(bytes_of(disks.checkpoints + name) == bytes_of(disks.scratch.path("plain") + name));
}

TEST_CASE("what would not be kept anyway is not copied, and the best one is", "[local_checkpoints]") {
  const Disks disks;
  leave_killed_run(disks);
  CHECK(disks.local() ==
        Names{"000002-best-step-000000020.h5", "000004-step-000000040.h5", "000005-step-000000050.h5"});
}

TEST_CASE("copying that failed is tried again after the next checkpoint, and at the end", "[local_checkpoints]") {
  const Disks disks;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  Log log(0, false);
  log.add_file(disks.scratch.path("log.txt"));
  CheckpointStore store(*world, disks.checkpoints, disks.terms(), &log);
  fs::create_directories(disks.checkpoints + "/step-000000010.h5.tmp/in the way");
  for (const std::int64_t step : {10, 20}) {
    write_step_of(store, model, step);
    let_it_settle(store);
  }
  wait_until([&] { return disks.log().find("a checkpoint cannot be copied to the run folder") != std::string::npos; });
  fs::remove_all(disks.checkpoints + "/step-000000010.h5.tmp");
  write_step_of(store, model, 30);
  store.finish();
  CHECK(disks.in_folder() == Names{"step-000000020.h5", "step-000000030.h5"});
  CHECK(disks.local().empty());
  const std::string text = disks.log();
  CHECK(text.find("cannot be copied") == text.rfind("cannot be copied"));
  CounterSet counters;
  store.count(counters);
  CHECK(counters.get<LocalCheckpointCounts>().copied + counters.get<LocalCheckpointCounts>().given_up == 3);
}

TEST_CASE("a resumed run takes over what a killed one has left on a local disk alone", "[local_checkpoints]") {
  for (const int node : {0, 1}) {  // rank 0's, or another one
    for (const bool is_set : {true, false}) {
      const Disks disks;
      leave_killed_run(disks);
      comm::run_as_threads(
          2,
          [&](comm::Communicator& world) {
            Log log(world.rank(), false);
            log.add_file(disks.scratch.path("log.txt"));
            CheckpointStore store(world, disks.checkpoints, is_set ? disks.terms() : settings::CheckpointSettings{});
            store.recover(log);
            EXPECT(store.newest(log)->header.step == 50);
            EXPECT(read_header(store.best()).step == 20);
          },
          60, node == 0 ? 0 : 1);
      CHECK(disks.in_folder() == Names{"best.h5", "step-000000040.h5", "step-000000050.h5"});
      CHECK(disks.local().empty());
      CHECK_THAT(disks.log(), Contains("checkpoints up to step 50 are in ") && Contains("are copied"));
    }
  }
}

TEST_CASE("what was left on a local disk is not used after the run went on elsewhere", "[local_checkpoints]") {
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  Log log(0, false);
  for (const bool with_local : {false, true}) {
    const Disks disks;
    leave_killed_run(disks);
    fs::rename(disks.disk, disks.disk + ".away");
    fs::create_directories(disks.disk);
    log.add_file(disks.scratch.path("log.txt"));
    {
      CheckpointStore store(*world, disks.checkpoints, with_local ? disks.terms() : settings::CheckpointSettings{});
      store.recover(log);
      CHECK_THAT(disks.log(),
                 Contains("the run may have left newer checkpoints in ") && Contains("which no rank sees"));
      CHECK(store.newest(log)->header.step == 10);
      write_step_of(store, model, 25);
      if (!with_local) store.finish();
      let_it_settle(store);  // with the local disk, this one may be killed before its checkpoint is copied
    }
    fs::remove_all(disks.disk);
    fs::rename(disks.disk + ".away", disks.disk);
    CheckpointStore store(*world, disks.checkpoints, disks.terms());
    store.recover(log);
    CHECK(store.newest(log)->header.step <= 25);
    CHECK(disks.local().size() == 3);
  }
}

TEST_CASE("damaged and unfinished files of a local disk are never used, and removed", "[local_checkpoints]") {
  const Disks disks;
  leave_killed_run(disks);
  const auto note = read_local_note(disks.checkpoints);
  REQUIRE(note);
  std::string bytes = bytes_of(note->folder + "/000005-step-000000050.h5");
  for (const bool truncated : {false, true}) {
    std::string damaged = truncated ? bytes.substr(0, bytes.size() - 30) : bytes;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    std::ofstream(note->folder + (truncated ? "/000006-step-000000060.h5" : "/000005-step-000000050.h5"),
                  std::ios::binary)
        << damaged;
  }
  std::ofstream(note->folder + "/000007-step-000000070.h5.tmp") << bytes;
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  log.add_file(disks.scratch.path("log.txt"));
  CheckpointStore store(*world, disks.checkpoints, disks.terms(), &log);
  store.recover(log);
  CHECK(store.newest(log)->header.step == 40);
  CHECK(disks.in_folder() == Names{"best.h5", "step-000000020.h5", "step-000000040.h5"});
  CHECK(disks.local().empty());
  CHECK_THAT(disks.log(), Contains("step-000000050.h5 is damaged") && Contains("step-000000060.h5 is truncated") &&
                              Contains("this checkpoint is left out"));
}

TEST_CASE("a note that is damaged is told of, once", "[local_checkpoints]") {
  const Disks disks;
  leave_killed_run(disks);
  const std::string whole = bytes_of(disks.checkpoints + "/local.txt");
  const std::string folder = read_local_note(disks.checkpoints)->folder;
  for (const std::string& text :
       {std::string(), std::string("garbage"), whole.substr(0, 3), "\n" + folder + "\n", std::string("here\nthere\n"),
        "here\n/\x01" + folder + "\n", std::string("\xff\xfe\n\0\n", 5)}) {
    std::ofstream(disks.checkpoints + "/local.txt", std::ios::binary) << text;
    CHECK(has_damaged_note(disks.checkpoints));
    comm::run_as_threads(2, [&](comm::Communicator& world) {
      Log log(world.rank(), false);
      log.add_file(disks.scratch.path("log.txt"));
      CheckpointStore store(world, disks.checkpoints, disks.terms(), &log);
      store.recover(log);
      EXPECT(store.newest(log)->header.step == 10);
    });
    const std::string said = disks.log(), warning = "local.txt is damaged: if the run has left newer checkpoints";
    CHECK_THAT(said, Contains(warning));
    CHECK(said.find(warning) == said.rfind(warning));
    fs::remove(disks.scratch.path("log.txt"));
  }
  fs::remove(disks.checkpoints + "/local.txt");
  CHECK_FALSE(has_damaged_note(disks.checkpoints));
}

TEST_CASE("a note leads to nothing but folders that unisono has made", "[local_checkpoints]") {
  const Disks disks;
  leave_killed_run(disks);
  const std::string folder = read_local_note(disks.checkpoints)->folder, other = disks.scratch.path("mine");
  fs::rename(folder, other);
  const auto id = fs::path(folder).filename().string();
  for (const std::string& path : {other, folder + "/../../../../mine", disks.scratch.path() + "/../" + id}) {
    write_local_note(disks.checkpoints, {"here", path});
    CHECK(local_checkpoints_in(path).empty());
    forget_local_checkpoints(disks.checkpoints);
    CHECK_FALSE(read_local_note(disks.checkpoints));
    CHECK(std::distance(fs::directory_iterator(other), {}) == 4);  // with the lock
  }
}

TEST_CASE("a checkpoint that the local disk does not take is written to the run's folder at once",
          "[local_checkpoints]") {
  const SampleModel model;
  for (const int ranks : {1, 3}) {
    for (const int ranks_per_node : {0, 1}) {
      const Disks disks;
      comm::run_as_threads(
          ranks,
          [&](comm::Communicator& world) {
            Log log(world.rank(), false);
            log.add_file(disks.scratch.path("log.txt"));
            CheckpointStore store(world, disks.checkpoints, disks.terms(), &log);
            for (const std::int64_t step : {10, 20, 30, 40}) {
              if (step == 20) {  // the folder cannot be used from here on
                world.barrier();
                if (world.is_root()) fs::remove_all(disks.disk);
                world.barrier();
              }
              write_step_of(store, model, step);
              while (store.is_writing()) store.advance();
              world.barrier();
            }
            store.finish();
            CounterSet counters;
            store.count(counters);
            EXPECT(world.sum(counters.get<LocalCheckpointCounts>().direct) == 3);
          },
          60, ranks_per_node);
      CHECK(disks.in_folder() == Names{"step-000000030.h5", "step-000000040.h5"});
      const std::string text = disks.log();
      CHECK_THAT(text, Contains("checkpoint.local: ") && Contains("is written to the run folder at once"));
      CHECK(text.find("checkpoint.local") == text.rfind("checkpoint.local"));
    }
  }
}

TEST_CASE("local checkpoints of a run that still goes on are left alone", "[local_checkpoints]") {
  const auto world = comm::make_self_communicator();
  const Disks disks;
  leave_killed_run(disks);
  const OpenFile other = lock_local_folder(read_local_note(disks.checkpoints)->folder);
  REQUIRE(other.is_open());
  Log log(0, false);
  log.add_file(disks.scratch.path("log.txt"));
  CheckpointStore store(*world, disks.checkpoints, disks.terms());
  store.recover(log);
  CHECK_THAT(disks.log(), Contains("or another run uses: it goes on without them"));
  CHECK(store.newest(log)->header.step == 10);
  const SampleModel model;
  write_step_of(store, model, 20);
  store.finish();
  CHECK(disks.local().size() == 3);
}

TEST_CASE("a run goes back to its best checkpoint when all are copied", "[local_checkpoints]") {
  const SampleModel model;
  const Disks disks;
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    CheckpointStore store(world, disks.checkpoints, disks.terms());
    for (const std::int64_t step : {10, 20, 30, 40}) write_step_of(store, model, step, step == 20);
    store.go_back_to_best(20);
  });
  CHECK(read_header(disks.checkpoints + "/step-000000020.h5").step == 20);
  CHECK(disks.in_folder().back() == "step-000000020.h5");
}

TEST_CASE("best.h5 becomes what a run is resumed from where that is the best one", "[local_checkpoints]") {
  const SampleModel model;
  const Disks disks;
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  CheckpointStore store(*world, disks.checkpoints, {.best = {}});
  write_step_of(store, model, 10, true);
  SampleState state(model);
  CheckpointHeader header = testing::sample_header(model, 20);
  header.best_by = {.criterion = "validation loss", .value = 1, .step = 20};
  store.write(header, state.held(), false);  // as a kill leaves it between the file's name and best.h5
  store.finish();
  for (int turn = 0; turn < 2; ++turn) {
    store.relink_best(*store.newest(log));
    CHECK(read_header(store.best()).step == 20);
  }
  CHECK(disks.in_folder() == Names{"best.h5", "step-000000010.h5", "step-000000020.h5"});
}

TEST_CASE("a local disk that cannot be used is refused before the run", "[local_checkpoints]") {
  const ScratchFolder folder;
  CHECK_THROWS_WITH(require_local_disk(folder.path("nowhere")),
                    Contains("checkpoint.local = \"") && Contains("there is no such folder"));
  CHECK_THROWS_AS(require_local_disk(folder.path("nowhere")), ConfigError);
  require_local_disk(folder.path());
  CHECK(fs::is_empty(folder.path() + "/unisono-" + std::to_string(::geteuid()) + "/checkpoints"));
  folder.file("unisono", "");
  CHECK_THROWS_AS(require_local_disk(folder.path("unisono")), ConfigError);
}

}  // namespace
}  // namespace unisono::session
