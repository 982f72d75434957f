#include "run/times_of_ranks.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "scratch_folder.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/records/recorded_times.hpp"

namespace unisono::session {
namespace {

/// A node's clock, which is ahead of that of others.
class NodesClock final : public Clock {
 public:
  explicit NodesClock(int node) : ahead_(1000.0 * node) {}
  double seconds() const override { return steady_clock().seconds() + ahead_; }

 private:
  double ahead_;
};

TEST_CASE("the ranks' gradients are written with seconds from the same moment on", "[times_of_ranks]") {
  const int ranks_per_node = GENERATE(0, 1, 2);
  const testing::ScratchFolder folder;
  comm::run_as_threads(
      4,
      [&](comm::Communicator& group) {
        const NodesClock clock(group.node());
        TimesOfRanks times(group, clock);
        group.barrier();
        const double now = clock.seconds();
        for (int i = 0; i <= group.rank(); ++i) times.gradients().push_back({.begin = now + i, .seconds = 0.5 * i});
        times.write(folder.path());
      },
      60, ranks_per_node);
  const std::string path = folder.path("gradients.jsonl");
  const auto read = records::read_gradient_times(path, "test");
  REQUIRE(read.size() == 4);
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    REQUIRE(read[rank].size() == rank + 1);
    CHECK(read[rank].back() == Approx(0.5 * static_cast<double>(rank)));
  }
  // The clocks are thousands of seconds apart, but the moments are those between two barriers.
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto one = nlohmann::json::parse(line);
    const double begin = one["begin"].get<double>() - 2 * one["seconds"].get<double>();
    CHECK(std::abs(begin) < 100);
  }
}

}  // namespace
}  // namespace unisono::session
