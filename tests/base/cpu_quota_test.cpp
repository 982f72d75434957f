#include "unisono/base/resources.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace unisono {
namespace {

namespace fs = std::filesystem;

/// A folder with the files of /proc and /sys that say which quotas there are.
class Machine {
 public:
  explicit Machine(const std::string& memberships) { write("proc/self/cgroup", memberships); }
  ~Machine() { fs::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }
  std::vector<CpuQuota> quotas() const { return cpu_quotas(root_); }
  std::string folder(const std::string& group) const { return root_ / "sys/fs/cgroup" / group; }

 private:
  fs::path root_ = fs::temp_directory_path() / "unisono-cpu-quota-test";
};

TEST_CASE("a control group's CPU quota and those above it are read, in cores", "[threads]") {
  const Machine machine("0::/jobs/one");
  CHECK(machine.quotas().empty());
  machine.write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000");
  machine.write("sys/fs/cgroup/jobs/cpu.max", "150000 100000");
  machine.write("sys/fs/cgroup/cpu.max", "400000 50000");  // inside a container this group, too, may have one
  machine.write("sys/fs/cgroup/jobs/two/cpu.max", "1000 100000");
  const auto quotas = machine.quotas();
  REQUIRE(quotas.size() == 2);
  CHECK(quotas[0].cores == 1.5);
  CHECK(quotas[0].group == machine.folder("jobs"));
  CHECK(quotas[1].cores == 8);
}

TEST_CASE("CPU quotas of control groups of version 1 are read", "[threads]") {
  const Machine machine("5:cpuacct,cpu:/jobs/one\n4:cpuset:/other\n0::/");
  machine.write("sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us", "-1");
  machine.write("sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us", "100000");
  machine.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "300000");
  machine.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000");
  const auto quotas = machine.quotas();
  REQUIRE(quotas.size() == 1);
  CHECK(quotas[0].cores == 3);
  CHECK(quotas[0].group == machine.folder("cpu/jobs"));
}

}  // namespace
}  // namespace unisono
