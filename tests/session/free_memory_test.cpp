#include "machine/placement.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "scratch_folder.hpp"

namespace unisono::session {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kKibi = 1024, kMebi = 1024 * kKibi;

using Files = std::map<std::string, std::string>;

double free_on(const Files& files, int ranks = 1, double data = kNone, double space = kNone) {
  const testing::ScratchFolder root;
  for (const auto& [path, text] : files) {
    std::filesystem::create_directories(std::filesystem::path(root.path() + path).parent_path());
    root.file(path, text);
  }
  return free_memory_bytes(ranks, {.data = data, .address_space = space}, root.path());
}

const Files kNode = {{"/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8192 kB\n"},
                     {"/proc/self/status", "Name:\tunisono\nVmSize:\t    3072 kB\nVmData:\t    1024 kB\n"}};

TEST_CASE("ranks of a node share its memory", "[free_memory]") {
  CHECK(free_on({}) == kNone);
  CHECK(free_on(kNode) == 8 * kMebi);
  CHECK(free_on(kNode, 4) == 2 * kMebi);
}

TEST_CASE("a process has what is left of its own limits", "[free_memory]") {
  CHECK(free_on(kNode, 2, 3 * kMebi) == 2 * kMebi);
  CHECK(free_on(kNode, 2, 3 * kMebi, 4 * kMebi) == 1 * kMebi);
  CHECK(free_on(kNode, 2, 0.5 * kMebi) == 0);
}

TEST_CASE("the control group and those above it limit their processes, but caches are free", "[free_memory]") {
  Files files = kNode;
  files["/proc/self/cgroup"] = "0::/user/job\n";
  files["/sys/fs/cgroup/user/job/memory.max"] = "max\n";
  files["/sys/fs/cgroup/user/job/memory.current"] = "1048576\n";
  CHECK(free_on(files) == 8 * kMebi);
  files["/sys/fs/cgroup/user/memory.max"] = "6291456\n";
  files["/sys/fs/cgroup/user/memory.current"] = "3145728\n";
  CHECK(free_on(files) == 3 * kMebi);
  CHECK(free_on(files, 3) == 1 * kMebi);
  files["/sys/fs/cgroup/user/memory.stat"] = "anon 1\ninactive_file 1048576\n";
  CHECK(free_on(files) == 4 * kMebi);
}

TEST_CASE("control groups of the first version are known, too", "[free_memory]") {
  Files files = kNode;
  files["/proc/self/cgroup"] = "5:cpu:/\n3:memory:/job\n";
  files["/sys/fs/cgroup/memory/job/memory.limit_in_bytes"] = "2097152\n";
  files["/sys/fs/cgroup/memory/job/memory.usage_in_bytes"] = "1048576\n";
  files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";
  files["/sys/fs/cgroup/memory/memory.usage_in_bytes"] = "1\n";
  CHECK(free_on(files) == 1 * kMebi);
}

}  // namespace
}  // namespace unisono::session
