#include "checkpoint/memory_copies.hpp"

#include <sys/resource.h>

#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <expect.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
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

const settings::CheckpointSettings kCopies{.memory_every_steps = 1, .best = {}};

/// A run's folder of checkpoints, and what is in memory of it.
struct Places {
  ScratchFolder scratch;
  std::string checkpoints = scratch.path("c");

  std::string note() const { return checkpoints + "/memory.txt"; }
  /// The files of the run's copies.
  std::vector<fs::path> parts() const {
    std::vector<fs::path> found;
    std::string id;
    std::getline(std::ifstream(note()), id);
    if (id.empty()) return found;
    const std::string folder = "/dev/shm/unisono-" + std::to_string(::geteuid()) + "/copies/" + id;
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }
  /// Removes the files that this rank keeps, as if its node were lost.
  void lose(int rank) const {
    for (const fs::path& part : parts()) {
      if (part.string().find("-rank-" + std::to_string(rank) + "-") != std::string::npos) fs::remove(part);
    }
  }
  std::string log() const { return bytes_of(scratch.path("log.txt")); }
};

/// Each rank's state; where it is divided, of each rank's own optimizer.
struct RankState {
  explicit RankState(comm::Communicator& world, bool is_divided, float first = 0)
      : map(test::by_columns(model.parameters, world.size())),
        own(static_cast<std::size_t>(map.local(world.rank()).size())),
        state(model) {
    std::iota(own.begin(), own.end(), first + static_cast<float>(1000 * world.rank()));
    vectors = state.held();
    if (is_divided) vectors[2] = testing::divided_vector("optimizer/0/velocity", map, world.rank(), own);
  }
  CheckpointHeader header(std::int64_t step) const { return testing::sample_header(model, step); }

  SampleModel model;
  ShardMap map;
  std::vector<float> own;
  SampleState state;
  StoredVectors vectors;
};

/// A run that writes a checkpoint of step 10, copies steps 20 and 30 to memory, and is killed.
void leave_killed_run(const Places& places, int ranks, int ranks_per_node, bool divided) {
  comm::run_as_threads(
      ranks,
      [&](comm::Communicator& world) {
        CheckpointStore store(world, places.checkpoints, kCopies);
        RankState old(world, divided, 5), now(world, divided);
        store.write(old.header(10), old.vectors, false);
        store.copy_to_memory(old.header(20), old.vectors);
        store.copy_to_memory(now.header(30), now.vectors);
        while (store.is_writing()) store.advance();
        CheckpointStore plain(world, places.scratch.path("plain"), {.best = {}});
        plain.write(now.header(30), now.vectors, false);
        plain.finish();
      },
      60, ranks_per_node);
}

/// Starts it again. \return the step from which it goes on
std::int64_t step_of_restart(const Places& places, int ranks) {
  std::int64_t step = -1;
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    if (world.is_root()) log.add_file(places.scratch.path("log.txt"));
    CheckpointStore store(world, places.checkpoints, {.best = {}}, &log);
    store.recover(log);
    const auto newest = store.newest(log);
    if (world.is_root() && newest) step = newest->header.step;
  });
  return step;
}

bool has_the_bytes_of_a_checkpoint(const Places& places) {
  return bytes_of(places.checkpoints + "/step-000000030.h5") ==
         bytes_of(places.scratch.path("plain") + "/step-000000030.h5");
}

TEST_CASE("a killed run goes on from the copy in memory, which has the bytes of a checkpoint", "[memory_copies]") {
  for (const int ranks : {1, 2, 4}) {
    for (const int ranks_per_node : {0, 1, 2}) {
      for (const bool divided : {false, true}) {
        for (const int after : {1, 3}) {
          const Places places;
          leave_killed_run(places, ranks, ranks_per_node, divided);
          CHECK(step_of_restart(places, after) == 30);
          CHECK(has_the_bytes_of_a_checkpoint(places));
          CHECK_THAT(places.log(), Contains("step 30 is in the nodes' memory alone"));
          CHECK_FALSE(fs::exists(places.note()));
          CHECK(step_of_restart(places, after) == 30);
        }
      }
    }
  }
}

TEST_CASE("any node may be lost", "[memory_copies]") {
  for (const bool divided : {false, true}) {
    for (const int lost : {0, 1, 2}) {
      const Places places;
      leave_killed_run(places, 3, 1, divided);
      places.lose(lost);
      CHECK(step_of_restart(places, 2) == 30);
      CHECK(has_the_bytes_of_a_checkpoint(places));
    }
  }
}

TEST_CASE("where two neighbours are lost that alone have a part, the run goes on from its checkpoint",
          "[memory_copies]") {
  const Places places;
  leave_killed_run(places, 3, 1, /*divided=*/true);
  places.lose(0);
  places.lose(1);
  CHECK(step_of_restart(places, 1) == 10);
  CHECK_THAT(places.log(), Contains("of step 30, only parts are left in the nodes' memory"));
  const Places without;
  leave_killed_run(without, 2, 1, /*divided=*/false);
  without.lose(0);
  without.lose(1);
  CHECK(step_of_restart(without, 1) == 10);
  CHECK_THAT(without.log(), Contains("nothing is left of the copies in the nodes' memory"));
}

TEST_CASE("a damaged part is not used: another node's is, or the older copy", "[memory_copies]") {
  const auto damage = [](const Places& places, const std::string& holder) {
    for (const fs::path& part : places.parts()) {
      std::string bytes = bytes_of(part);
      if (part.string().find(holder) == std::string::npos) continue;
      bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
      std::ofstream(part, std::ios::binary) << bytes;
    }
  };
  const Places places;
  leave_killed_run(places, 3, 1, /*divided=*/true);
  damage(places, "-rank-1-");
  CHECK(step_of_restart(places, 3) == 30);
  CHECK(has_the_bytes_of_a_checkpoint(places));

  const Places one;
  leave_killed_run(one, 1, 0, /*divided=*/false);
  fs::resize_file(one.parts().front(), 100);
  fs::resize_file(one.parts().back(), fs::file_size(one.parts().back()) - 1);
  CHECK(step_of_restart(one, 1) == 10);

  const Places older;
  leave_killed_run(older, 2, 0, /*divided=*/true);
  REQUIRE(older.parts().size() == 4);
  // Slots take turns: the copy of step 20 is in the second one.
  for (const fs::path& part : older.parts()) {
    if (part.string().ends_with("-0")) std::ofstream(part, std::ios::binary) << "torn";
  }
  CHECK(step_of_restart(older, 2) == 20);
}

TEST_CASE("copies are removed when a checkpoint of a later step is written, and not before", "[memory_copies]") {
  for (const int ranks : {1, 3}) {
    const Places places;
    comm::run_as_threads(ranks, [&](comm::Communicator& world) {
      CheckpointStore store(world, places.checkpoints, kCopies);
      RankState state(world, true);
      store.write(state.header(10), state.vectors, false);
      store.copy_to_memory(state.header(20), state.vectors);
      store.finish();
      if (world.is_root()) EXPECT(places.parts().size() == static_cast<std::size_t>(world.size()));
      world.barrier();
      store.write(state.header(30), state.vectors, false);
      store.finish();
      CounterSet counters;
      store.count(counters);
      EXPECT(world.sum(counters.get<MemoryCopyCounts>().made) == 1);
    });
    CHECK_FALSE(fs::exists(places.note()));
    CHECK(places.parts().empty());
  }
}

TEST_CASE("where memory takes no copy, there is one warning, and checkpoints go on", "[memory_copies]") {
  const Places places;
  std::signal(SIGXFSZ, SIG_IGN);
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    if (world.is_root()) log.add_file(places.scratch.path("log.txt"));
    CheckpointStore store(world, places.checkpoints, kCopies, &log);
    RankState state(world, true);
    store.require_room(state.vectors);
    store.copy_to_memory(state.header(10), state.vectors);
    store.finish();
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
    world.barrier();
    if (world.is_root()) ::setrlimit(RLIMIT_FSIZE, &small);
    world.barrier();
    for (const std::int64_t step : {20, 30}) {
      store.copy_to_memory(state.header(step), state.vectors);
      while (store.is_writing()) store.advance();
    }
    world.barrier();
    if (world.is_root()) ::setrlimit(RLIMIT_FSIZE, &before);
    world.barrier();
    store.write(state.header(40), state.vectors, false);
    store.finish();
  });
  const std::string text = places.log();
  CHECK_THAT(text, Contains("no more copies are kept in the nodes' memory"));
  CHECK(text.find("no more copies") == text.rfind("no more copies"));
  CHECK(step_of_restart(places, 1) == 40);
  CHECK_FALSE(fs::exists(places.note()));
}

TEST_CASE("memory without room is refused before the run", "[memory_copies]") {
  const Places places;
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    ParameterLayout large;
    large.add({.name = "dense1.weight",
               .shape = {Index{1} << 40, 1},
               .axes = {},
               .role = Role::weight,
               .fan_in = 1,
               .fan_out = 1,
               .initialiser = Initialiser::zeros});
    const CheckpointStore store(world, places.checkpoints, kCopies);
    const StoredVectors state = {testing::whole_vector("parameters", large, {})};
    try {
      store.require_room(state);
      EXPECT(false);
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT(text.find("checkpoint.memory_every_steps: copies take up to 8796093 MB of /dev/shm") == 0);
    }
  });
}

TEST_CASE("a note of copies leads to nothing but copies", "[memory_copies]") {
  const Places places;
  const auto world = comm::make_self_communicator();
  fs::create_directories(places.checkpoints);
  for (const char* text : {"", "..", "../../tmp", "/tmp", "0123456789abcdeg"}) {
    std::ofstream(places.note()) << text << "\n";
    CHECK(find_memory_copy(*world, places.checkpoints).id.empty());
  }
}

}  // namespace
}  // namespace unisono::session
