#include "unisono/base/threads.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "unisono/base/resources.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;

TEST_CASE("threads are joined by their owner, and can be started again", "[threads]") {
  std::atomic<int> done{0};
  {
    Threads threads("a test", 3);
    for (int i = 0; i < 3; ++i) threads.start([&done] { ++done; });
    CHECK(threads.size() == 3);
    threads.join();
    CHECK(done == 3);
    CHECK(threads.size() == 0);
    threads.start([&done] { ++done; });
  }
  CHECK(done == 4);
}

TEST_CASE("of the control groups above a process the one with the least limit is named", "[threads]") {
  const fs::path root = fs::temp_directory_path() / "unisono-threads-test";
  const auto limit = [&root](const std::string& group, const std::string& value) {
    fs::create_directories(root / group);
    std::ofstream(root / group / "pids.max") << value << '\n';
  };
  limit("jobs", "64");
  limit("jobs/one", "max");
  limit("jobs/two", "12");
  limit("pids/jobs", "7");
  CHECK(cgroup_limit("0::/jobs/one\n", root) ==
        "the control group allows 64 processes and threads (" + (root / "jobs/pids.max").string() + ")");
  CHECK(cgroup_limit("0::/jobs/two\n", root) ==
        "the control group allows 12 processes and threads (" + (root / "jobs/two/pids.max").string() + ")");
  CHECK(cgroup_limit("8:pids:/jobs/one\n1:cpu:/\n0::/\n", root) ==
        "the control group allows 7 processes and threads (" + (root / "pids/jobs/pids.max").string() + ")");
  CHECK(cgroup_limit("0::/\n", root).empty());
  CHECK(cgroup_limit("", root).empty());
  fs::remove_all(root);
}

}  // namespace
}  // namespace unisono
