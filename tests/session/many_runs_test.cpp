#include <malloc.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "expect.hpp"
#include "small_runs.hpp"
#include "unisono/session/placement.hpp"
#include "unisono/session/run.hpp"

// Runs side by side, and one after the other, in one process.

namespace unisono::session {
namespace {

using testing::factorization;
using testing::perceptron;
using testing::quiet;
using testing::ScratchFolder;

using Parameters = std::vector<float>;

/// What a run on two ranks comes to: each rank's parameters.
struct Outcome {
  RunStatus status = RunStatus::complete;
  std::vector<Parameters> parameters{2};
  bool operator==(const Outcome&) const = default;
};

Outcome run_by_itself(const settings::Config& config) {
  Outcome outcome;
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    Job job(world, log);
    const auto rank = static_cast<std::size_t>(world.rank());
    const RunResult result = run(job, world, config, quiet(&outcome.parameters[rank]));
    if (world.is_root()) outcome.status = result.status;
  });
  return outcome;
}

TEST_CASE("256 ranks, and a server of as many workers, train as one rank does", "[many_ranks]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder, 7 * 52);
  const auto parameters_on = [&](int ranks, const std::vector<std::string>& strategy, int batch = 260) {
    std::vector<std::string> keys = {"train.batch_size=" + std::to_string(batch), "train.epochs=4"};
    keys.insert(keys.end(), strategy.begin(), strategy.end());
    Parameters parameters;
    comm::run_as_threads(
        ranks,
        [&](comm::Communicator& world) {
          Log log(world.rank(), false);
          Job job(world, log);
          const RunResult result =
              run(job, world, perceptron(points, keys), quiet(world.is_root() ? &parameters : nullptr));
          EXPECT(result.status == RunStatus::complete);
        },
        120, /*ranks_per_node=*/16);
    return parameters;
  };
  const std::vector<std::string> sums = {"strategy.kind=\"allreduce\""},
                                 server = {"strategy.kind=\"parameter_server\"", "strategy.servers=1",
                                           "strategy.consistency=\"synchronous\""};
  const Parameters alone = parameters_on(1, sums);
  for (const Parameters& many : {parameters_on(256, sums), parameters_on(261, server)}) {
    REQUIRE(many.size() == alone.size());
    // 4 steps, each of a sum of 256 gradients: the rounding of as many floats, with factors of order one.
    for (std::size_t i = 0; i < many.size(); ++i) CHECK(std::abs(many[i] - alone[i]) < 1e-4F);
  }
  // Steps of 256 examples of 260, then of 4: each worker draws from its own part, as ranks with fixed parts do.
  std::vector<std::string> fixed = sums;
  fixed.push_back("data.partition=\"fixed\"");
  const Parameters parts = parameters_on(256, fixed, 256), served = parameters_on(257, server, 256);
  for (std::size_t i = 0; i < parts.size(); ++i) CHECK(std::abs(served[i] - parts[i]) < 1e-4F);
}

TEST_CASE("four runs side by side give the bits that each gives alone", "[many_runs]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder), ratings = testing::make_ratings(folder);
  const std::vector<settings::Config> configs = {
      perceptron(points, {"optimizer.kind=\"adamw\"", "train.epochs=3"}),
      perceptron(points, {"strategy.kind=\"averaging\"", "strategy.period=2", "seed=7", "optimizer.momentum=0.9"}),
      perceptron(points, {"strategy.kind=\"parameter_server\"", "strategy.consistency=\"synchronous\"",
                          "strategy.servers=1", "train.epochs=4"}),
      factorization(ratings)};
  std::vector<Outcome> alone, beside(configs.size());
  for (const settings::Config& config : configs) alone.push_back(run_by_itself(config));
  Log log(0, false);  // of all ranks
  comm::run_as_threads(8, [&](comm::Communicator& world) {
    Job job(world, log);
    const auto number = static_cast<std::size_t>(world.rank() / 2);
    comm::Communicator& group = job.split(world.rank() / 2, world.rank());
    Outcome& outcome = beside[number];
    const RunResult result =
        run(job, group, configs[number], quiet(&outcome.parameters[static_cast<std::size_t>(group.rank())]));
    if (group.is_root()) outcome.status = result.status;
  });
  for (std::size_t i = 0; i < configs.size(); ++i) {
    INFO(i);
    CHECK(alone[i].status == RunStatus::complete);
    CHECK(beside[i] == alone[i]);
  }
}

TEST_CASE("runs side by side write to folders of their own", "[many_runs]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  Log log(0, false);
  comm::run_as_threads(4, [&](comm::Communicator& world) {
    Job job(world, log);
    const std::string name = world.rank() < 2 ? "left" : "right";
    comm::Communicator& group = job.split(world.rank() / 2, world.rank());
    RunOptions options = quiet();
    options.results = Results::in_folder;
    const settings::Config config =
        perceptron(points, {"name=\"" + name + "\"", "output=\"" + folder.path(name) + "\""});
    EXPECT(run(job, group, config, options).status == RunStatus::complete);
  });
  for (const auto& [own, other] : {std::pair{"left", "right"}, std::pair{"right", "left"}}) {
    const std::string text = testing::bytes_of(folder.path(own) + "/log.txt");
    CHECK(text.find(std::string(own) + ": complete after 2 epochs") != std::string::npos);
    CHECK(text.find(other) == std::string::npos);
    CHECK(std::filesystem::exists(folder.path(own) + "/summary.json"));
  }
}

/// What a process might lose a little of in each run.
struct Held {
  std::int64_t threads = 0, files = 0, heap_bytes = 0, resident_bytes = 0;
};

std::int64_t entries_of(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

Held held_now() {
  return {.threads = entries_of("/proc/self/task"),
          .files = entries_of("/proc/self/fd"),
          .heap_bytes = static_cast<std::int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd),
          .resident_bytes = resident_memory_bytes()};
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 15, kWarmUpRounds = 5;
constexpr bool kMemoryIsKnown = false;  // sanitizers keep what was freed, and a shadow of it
#else
constexpr int kRounds = 250, kWarmUpRounds = 25;
constexpr bool kMemoryIsKnown = true;
#endif

TEST_CASE("a thousand runs, four at a time, hold on to nothing, and each is right", "[long][many_runs]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  // Of ten runs in a row one diverges.
  constexpr int kKinds = 10, kGroups = 4;
  std::vector<settings::Config> configs;
  std::vector<Outcome> alone;
  for (int kind = 0; kind < kKinds; ++kind) {
    configs.push_back(
        perceptron(points, {"seed=" + std::to_string(kind), "train.epochs=1",
                            "optimizer.learning_rate=" + std::string(kind == 3 ? "1e30" : "0.1"),
                            kind % 2 == 0 ? "strategy.kind=\"allreduce\"" : "strategy.kind=\"averaging\""}));
    alone.push_back(run_by_itself(configs.back()));
    CHECK(alone.back().status == (kind == 3 ? RunStatus::diverged : RunStatus::complete));
  }
  Held warm, end;
  Log log(0, false);
  comm::run_as_threads(2 * kGroups, [&](comm::Communicator& world) {
    Job job(world, log);
    const int number = world.rank() / 2;
    comm::Communicator& group = job.split(number, world.rank());
    for (int round = 0; round < kRounds; ++round) {
      const auto kind = static_cast<std::size_t>((round * kGroups + number) % kKinds);
      Parameters parameters;
      const RunResult result = run(job, group, configs[kind], quiet(&parameters));
      EXPECT(result.status == alone[kind].status);
      EXPECT(kind == 3 || parameters == alone[kind].parameters[static_cast<std::size_t>(group.rank())]);
      if (round + 1 != kWarmUpRounds && round + 1 != kRounds) continue;
      world.barrier();
      if (world.is_root()) (round + 1 == kRounds ? end : warm) = held_now();
      world.barrier();
    }
  });
  CHECK(end.threads == warm.threads);
  CHECK(end.files == warm.files);
  if (!kMemoryIsKnown) return;
  // glibc counts as in use what each thread has set aside of what it freed: up to 7 pieces of each of 64 sizes, 16 to
  // 1024 bytes, so 7 · 16 · (1 + … + 64) bytes in each of the 8 ranks and of the threads that a run starts. Were a
  // communicator or a model of each run kept, it would be more: 900 runs of at least two ranks.
  constexpr std::int64_t kSetAside = 7 * 16 * (64 * 65 / 2);
  CHECK(end.heap_bytes - warm.heap_bytes < kSetAside * 2 * kGroups);
  // In pages, and with the room that each of glibc's arenas leaves between pieces: as much again, and the heap's step
  // of 132 KiB in each.
  CHECK(end.resident_bytes - warm.resident_bytes < 2 * kGroups * (2 * kSetAside + 132 * 1024));
}

}  // namespace
}  // namespace unisono::session
