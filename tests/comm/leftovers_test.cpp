#include "mpi/job.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace unisono::comm::mpi {
namespace {

namespace fs = std::filesystem;

/// A folder in memory; none where there is no such file system.
class MemoryFolder {
 public:
  MemoryFolder() : path_(fs::path(kSharedMemoryFolder) / ("unisono-test-" + std::to_string(getpid()))) {
    fs::create_directory(path_);
  }
  ~MemoryFolder() { fs::remove_all(path_); }
  fs::path file(const std::string& name) const {
    std::ofstream(path_ / name) << "some bytes";
    return path_ / name;
  }
  std::string path() const { return path_; }

 private:
  fs::path path_;
};

TEST_CASE("segments that nobody uses are removed, and nothing else", "[leftovers]") {
  const MemoryFolder folder;
  const fs::path dead = folder.file("vader_segment.host.0.3c6e0001.0"), window = folder.file("osc_sm.host.7f.0.11");
  const fs::path other = folder.file("something_else"), open_one = folder.file("osc_sm.host.7f.0.12");
  const fs::path mapped = folder.file("vader_segment.host.0.3c6e0001.1");
  const int file = open(open_one.c_str(), O_RDWR), map_file = open(mapped.c_str(), O_RDWR);
  void* const memory = mmap(nullptr, 10, PROT_READ | PROT_WRITE, MAP_SHARED, map_file, 0);
  REQUIRE(memory != MAP_FAILED);
  close(map_file);  // as Open MPI does

  remove_dead_segments(folder.path());
  CHECK_FALSE(fs::exists(dead));
  CHECK_FALSE(fs::exists(window));
  CHECK(fs::exists(other));
  CHECK(fs::exists(open_one));
  CHECK(fs::exists(mapped));

  munmap(memory, 10);
  close(file);
  remove_dead_segments(folder.path());
  CHECK_FALSE(fs::exists(open_one));
  CHECK_FALSE(fs::exists(mapped));
}

TEST_CASE("another user's segments stay", "[leftovers]") {
  const MemoryFolder folder;
  const fs::path path = folder.file("vader_segment.host.12345.3c6e0001.0");
  if (geteuid() != 0 || chown(path.c_str(), 12345, 12345) != 0) return;  // nobody else may give files away
  remove_dead_segments(folder.path());
  CHECK(fs::exists(path));
}

TEST_CASE("of a job that is aborted its own segments are removed", "[leftovers]") {
  const MemoryFolder folder;
  const fs::path own = folder.file("vader_segment.host.0.4d820001.1"), window = folder.file("osc_sm.host.4d820001.0.3");
  const fs::path other = folder.file("vader_segment.host.0.4d830001.1");
  remove_segments_of("slurm.pmix.12.0", folder.path());
  remove_segments_of("", folder.path());
  CHECK(fs::exists(own));
  remove_segments_of("1300365313", folder.path());
  CHECK_FALSE(fs::exists(own));
  CHECK_FALSE(fs::exists(window));
  CHECK(fs::exists(other));
}

}  // namespace
}  // namespace unisono::comm::mpi
