#include "unisono/session/run.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "small_runs.hpp"
#include "unisono/comm/mpi.hpp"

namespace unisono::session {
namespace {

using testing::perceptron;
using testing::quiet;

/// What a process might lose a little of in each run.
struct Held {
  std::int64_t threads = 0, files = 0, shared_segments = 0;
  bool operator==(const Held&) const = default;
};

Held held_now() {
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  Held held{.threads = entries("/proc/self/task"), .files = entries("/proc/self/fd")};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) held.shared_segments += line.find(" rw-s ") != std::string::npos;
  return held;
}

/// A set that rank 0 makes and all see.
class Points {
 public:
  explicit Points(comm::Communicator& world) {
    std::string path;
    if (world.is_root()) {
      folder_ = std::make_unique<testing::ScratchFolder>();
      path = testing::make_points(*folder_);
    }
    path_ = world.broadcast_text(path);
  }
  const std::string& path() const { return path_; }

 private:
  std::unique_ptr<testing::ScratchFolder> folder_;
  std::string path_;
};

TEST_CASE("groups of processes make runs side by side, as they make them alone", "[mpi]") {
  int argc = 0;
  char** argv = nullptr;
  comm::MpiSession session(argc, argv);
  const auto world = session.world({});
  const Points points(*world);
  Log log(world->rank(), false);
  Job job(*world, log);
  const int color = world->rank() % 2;
  comm::Communicator& group = job.split(color, world->rank());
  const settings::Config config = perceptron(points.path(), {"seed=" + std::to_string(color)});
  std::vector<float> alone, parameters;
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == color) CHECK(run(job, group, config, quiet(&alone)).status == RunStatus::complete);
    world->barrier();
  }
  Held first;
  for (int round = 0; round < 30; ++round) {
    const bool diverges = round % 10 == 3;
    const settings::Config now = diverges ? perceptron(points.path(), {"optimizer.learning_rate=1e30"}) : config;
    const RunResult result = run(job, group, now, quiet(&parameters));
    CHECK(result.status == (diverges ? RunStatus::diverged : RunStatus::complete));
    if (!diverges) CHECK(parameters == alone);
    world->barrier();
    if (round == 9) first = held_now();
  }
  const Held last = held_now();
  CHECK(last.threads == first.threads);
  CHECK(last.files == first.files);
  CHECK(last.shared_segments == first.shared_segments);
  world->barrier();
}

}  // namespace
}  // namespace unisono::session
