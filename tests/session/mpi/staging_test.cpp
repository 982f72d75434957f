#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "machine/shared_staging.hpp"
#include "shared_folder.hpp"
#include "small_runs.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/comm/mpi.hpp"

namespace unisono::session {
namespace {

TEST_CASE("nodes read a staged set once between them, and what others keep from them", "[mpi]") {
  int argc = 0;
  char** argv = nullptr;
  comm::MpiSession session(argc, argv);
  const auto world = session.world({.ranks_per_node = 1});
  const testing::SharedFolder folder(*world);
  data::DataSettings settings{.path = folder.path("set"), .partition = data::Partition::global};
  settings.stage = folder.disk();
  std::string expected(30'000'001, '\0');
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<char>(i * 31 + i / 1009);
  if (world->is_root()) std::ofstream(settings.path, std::ios::binary) << expected;
  world->barrier();
  Log log(world->rank(), false);
  for (int job = 0; job < 2; ++job) {
    const SharedStaging staging(*world, settings, log);
    bool equal = true;
    {
      const RawFile file(settings.path, RawFile::Mode::read);
      std::string part(1'500'000, '\0');
      for (std::size_t i = 0; i < 40; ++i) {  // each rank in an order of its own, some parts several times
        const std::size_t place = (i * 7 + static_cast<std::size_t>(world->rank()) * 3) % 20;
        const std::size_t at = std::min(place * part.size(), expected.size() - part.size());
        file.read(at, std::as_writable_bytes(std::span(part)));
        equal = equal && expected.compare(at, part.size(), part) == 0;
      }
      std::string little(3, '\0');
      file.read(expected.size() - 3, std::as_writable_bytes(std::span(little)));
      equal = equal && expected.ends_with(little);
    }
    CHECK(equal);
    world->barrier();
    const data::StagedBytes read = staging.read_bytes();
    CHECK(world->sum(read.file) == (job == 0 ? std::ssize(expected) : 0));
    CHECK((read.neighbours > 0) == (world->size() > 1));
    CHECK(read.copy > 0);
  }
  world->barrier();
}

TEST_CASE("a run on nodes that stage its set gives the same bits", "[mpi]") {
  int argc = 0;
  char** argv = nullptr;
  comm::MpiSession session(argc, argv);
  const auto world = session.world({.ranks_per_node = 1});
  const testing::SharedFolder folder(*world);
  if (world->is_root()) {
    const testing::ScratchFolder own;
    std::filesystem::copy_file(testing::make_points(own), folder.path("points.h5"));
  }
  world->barrier();
  Log log(world->rank(), false);
  std::vector<float> plain, staged;
  for (const char* partition : {"global", "fixed"}) {
    const std::vector<std::string> how = {"data.reader=\"streaming\"",
                                          std::string("data.partition=\"") + partition + '"'};
    std::vector<std::string> staging = how;
    staging.push_back("data.stage=\"" + folder.path("disk0") + '"');
    Job job(*world, log);
    run(job, *world, testing::perceptron(folder.path("points.h5"), how), testing::quiet(&plain));
    run(job, *world, testing::perceptron(folder.path("points.h5"), staging), testing::quiet(&staged));
    CHECK(plain == staged);
  }
  world->barrier();
}

}  // namespace
}  // namespace unisono::session
