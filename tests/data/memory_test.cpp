#include "unisono/base/resources.hpp"

#include <catch2/catch.hpp>

#include "sets.hpp"

using namespace unisono::data;
using unisono::test::TempDir;
using unisono::test::write_file;

namespace {

/// A machine with 1000 KiB available.
void make_machine(const TempDir& root) {
  for (const char* folder : {"/proc/self", "/sys/fs/cgroup/user/job", "/sys/fs/cgroup/memory/job"}) {
    std::filesystem::create_directories(root.path() + folder);
  }
  unisono::test::write_file(root / "proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 1000 kB\n");
}

}  // namespace

TEST_CASE("available memory is the machine's where no group limits it", "[memory]") {
  const TempDir root;
  make_machine(root);
  CHECK(unisono::available_memory_bytes(root.path()) == 1000 * 1024);
  unisono::test::write_file(root / "proc/self/cgroup", "0::/user/job\n");
  unisono::test::write_file(root / "sys/fs/cgroup/user/job/memory.max", "max\n");
  CHECK(unisono::available_memory_bytes(root.path()) == 1000 * 1024);
  CHECK(unisono::available_memory_bytes() > 0);
}

TEST_CASE("a control group's limit counts, cached pages do not, and groups above limit, too", "[memory]") {
  const TempDir root;
  make_machine(root);
  unisono::test::write_file(root / "proc/self/cgroup", "0::/user/job\n");
  unisono::test::write_file(root / "sys/fs/cgroup/user/job/memory.max", "500000\n");
  unisono::test::write_file(root / "sys/fs/cgroup/user/job/memory.current", "300000\n");
  CHECK(unisono::available_memory_bytes(root.path()) == 200000);
  unisono::test::write_file(root / "sys/fs/cgroup/user/job/memory.stat", "anon 1\ninactive_file 100000\n");
  CHECK(unisono::available_memory_bytes(root.path()) == 300000);
  unisono::test::write_file(root / "sys/fs/cgroup/user/memory.max", "150000\n");
  unisono::test::write_file(root / "sys/fs/cgroup/user/memory.current", "200000\n");
  CHECK(unisono::available_memory_bytes(root.path()) == 0);
}

TEST_CASE("version 1 of control groups is understood", "[memory]") {
  const TempDir root;
  make_machine(root);
  unisono::test::write_file(root / "proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
  unisono::test::write_file(root / "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "400000\n");
  unisono::test::write_file(root / "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "100000\n");
  CHECK(unisono::available_memory_bytes(root.path()) == 300000);
}

TEST_CASE("a set that memory cannot hold is streamed, on all ranks alike", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.train = 20});
  CHECK(unisono::data::inspect_dataset(settings).resident);
  settings.reader = unisono::data::Reader::streaming;
  const unisono::data::DatasetInfo info = unisono::data::inspect_dataset(settings);
  CHECK_FALSE(info.resident);
  CHECK(info.bytes_per_node == 2 * 384);  // features and labels of 20 examples, each on whole cache lines, twice
  CHECK(info.train == 20);
  CHECK(info.classes == 2);

  // A file of 2⁴² bytes, of which all but the first row are a hole: more than any machine here can hold.
  {
    unisono::data::hdf5::File file(folder / "huge.h5", unisono::data::hdf5::File::Mode::create);
    file.create<std::uint8_t>("train/features", {std::uint64_t{1} << 35, 128});
    file.write_rows<std::uint8_t>("train/features", 0, 1, std::vector<std::uint8_t>(128).data());
  }
  settings = {};
  settings.path = folder / "huge.h5";
  settings.targets = unisono::data::Targets::features;
  CHECK_FALSE(unisono::data::inspect_dataset(settings).resident);
  CHECK(unisono::data::inspect_dataset(settings).bytes_per_node == 256 << 20);
  CHECK(unisono::data::inspect_dataset(settings).train == std::int64_t{1} << 35);
}
