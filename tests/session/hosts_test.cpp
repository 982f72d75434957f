#include "unisono/session/hosts.hpp"

#include <catch2/catch.hpp>

#include "expect.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("hosts and the ranks on them are counted", "[hosts]") {
  comm::run_as_threads(
      5,
      [](comm::Communicator& world) {
        const Hosts hosts = hosts_of(world);
        EXPECT(hosts.count == 3);
        EXPECT(hosts.ranks == 5);
        EXPECT(hosts.most_ranks == 2);
      },
      60, /*ranks_per_node=*/2);
}

TEST_CASE("one host is recommended where messages take longer than its ranks would", "[hosts]") {
  Seconds seconds;
  seconds.compute = 8, seconds.input = 1, seconds.optimizer = 1, seconds.exposed_communication = 90;
  seconds.evaluation = seconds.checkpoint = 1000;  // are not part of it
  // Without the others: 3 · 9 s for the examples, and 1 s for the updates.
  CHECK(advice_on_hosts(seconds, {.count = 3, .ranks = 6, .most_ranks = 2}) ==
        "one of the 3 hosts would be about 3.6 times as fast without the others: its 2 ranks would compute 3 times as "
        "much, but messages between hosts take 90 % of the time");
  CHECK(advice_on_hosts(seconds, {.count = 1, .ranks = 2, .most_ranks = 2}).empty());
  seconds.exposed_communication = 18;  // as long as the two other hosts' examples would take
  CHECK(advice_on_hosts(seconds, {.count = 3, .ranks = 6, .most_ranks = 2}).empty());
  CHECK(advice_on_hosts({}, {.count = 2, .ranks = 2, .most_ranks = 1}).empty());
}

}  // namespace
}  // namespace unisono::session
