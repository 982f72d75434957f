#include "unisono/comm/simulated.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "collectives.hpp"
#include "expect.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono;
using namespace unisono::comm;
using Catch::Matchers::Contains;

namespace {

/// 1 MB/s and 1 ms between hosts; 100 MB/s and 0.1 ms in a host.
SimulatedNetwork network(int ranks_per_host = 1) {
  return {.ranks_per_host = ranks_per_host,
          .between_hosts = {.bytes_per_second = 1e6, .seconds = 1e-3},
          .in_host = {.bytes_per_second = 1e8, .seconds = 1e-4}};
}

double no_cost(int, std::int64_t, std::uint64_t) { return 0; }

void simulate(int ranks, const SimulatedNetwork& network,
              const std::function<void(VirtualRuntime&, Communicator&)>& body) {
  VirtualRuntime runtime(1, no_cost);
  run_simulated(runtime, ranks, network, [&](Communicator& world) { body(runtime, world); });
}

/// The moments at which rank `to` has a message of each sender.
using Arrivals = std::map<int, double>;

/// All senders send at second 0, in the order of their ranks.
Arrivals arrivals(int ranks, const SimulatedNetwork& network, const std::vector<int>& senders, int to,
                  std::size_t bytes) {
  Arrivals arrivals;
  simulate(ranks, network, [&](VirtualRuntime& runtime, Communicator& world) {
    std::vector<std::byte> sent(bytes);
    if (std::ranges::count(senders, world.rank()) > 0) world.send(sent, to, world.rank());
    if (world.rank() != to) return;
    std::vector<std::vector<std::byte>> received(senders.size(), std::vector<std::byte>(bytes));
    const auto set = world.make_request_set();
    std::map<std::size_t, int> senders_of;
    for (std::size_t i = 0; i < senders.size(); ++i) {
      senders_of[set->add(world.start_receive(received[i], senders[i], senders[i]))] = senders[i];
    }
    while (!set->empty()) {
      for (const std::size_t number : set->finish_some([] { return false; })) {
        arrivals[senders_of[number]] = runtime.seconds();
      }
    }
  });
  return arrivals;
}

}  // namespace

TEST_CASE("simulated ranks keep the promises of a communicator", "[simulated]") {
  const auto& promise = GENERATE(from_range(unisono::test::promises()));
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  const int ranks_per_host = GENERATE(1, 2, 5);
  INFO(promise.name << ", on " << ranks << " ranks, " << ranks_per_host << " a host");
  VirtualRuntime runtime(1, no_cost);
  CHECK_NOTHROW(run_simulated(runtime, ranks, network(ranks_per_host), promise.check));
}

// What SimGrid's and other fluid models say of the same cases, where all messages are equally long.

TEST_CASE("a message takes the latency, and its bytes over the bandwidth", "[simulated]") {
  CHECK(arrivals(2, network(), {0}, 1, 1'000'000)[0] == Approx(1.001));
  CHECK(arrivals(2, network(), {0}, 1, 8)[0] == Approx(1e-3 + 8e-6));
  CHECK(arrivals(2, network(2), {0}, 1, 1'000'000)[0] == Approx(0.0101));
}

TEST_CASE("two messages to one host share its link", "[simulated]") {
  const Arrivals found = arrivals(3, network(), {0, 1}, 2, 1'000'000);
  // In turn, packet by packet: the last ones, of each 15 before, have 16,960 bytes.
  CHECK(found.at(0) == Approx(2.001 - 0.01696));
  CHECK(found.at(1) == Approx(2.001));
}

TEST_CASE("two messages from one host share its link", "[simulated]") {
  std::map<int, double> found;
  simulate(3, network(), [&](VirtualRuntime& runtime, Communicator& world) {
    std::vector<std::byte> bytes(1'000'000);
    if (world.rank() == 0) {
      const auto first = world.start_send(bytes, 1, 0), second = world.start_send(bytes, 2, 0);
      first->wait();
      second->wait();
    } else {
      world.receive(bytes, 0, 0);
      found[world.rank()] = runtime.seconds();
    }
  });
  // The first packet goes before the second message is there.
  CHECK(found.at(1) == Approx(2.001 - 0.01696 - 0.065536));
  CHECK(found.at(2) == Approx(2.001));
}

TEST_CASE("messages between different hosts do not delay each other, nor do both directions of a link", "[simulated]") {
  std::map<int, double> found;
  simulate(4, network(), [&](VirtualRuntime& runtime, Communicator& world) {
    std::vector<std::byte> sent(1'000'000), received(1'000'000);
    const int peer = world.rank() ^ 1;
    const auto receive = world.start_receive(received, peer, 0);
    world.send(sent, peer, 0);
    receive->wait();
    found[world.rank()] = runtime.seconds();
  });
  for (int rank = 0; rank < 4; ++rank) CHECK(found.at(rank) == Approx(1.001));
}

TEST_CASE("a long message waits until it is received, a short one does not", "[simulated]") {
  simulate(2, network(), [&](VirtualRuntime& runtime, Communicator& world) {
    std::vector<std::byte> bytes(10'000);
    const auto shorter = std::span(bytes).first(100);
    if (world.rank() == 0) {
      world.send(shorter, 1, 0);
      EXPECT(runtime.seconds() == 0);
      world.send(bytes, 1, 1);
      EXPECT(std::abs(runtime.seconds() - (5 + 1e-3 + 1e-2)) < 1e-9);
    } else {
      runtime.sleep(5);
      world.receive(shorter, 0, 0);
      EXPECT(runtime.seconds() == 5);
      world.receive(bytes, 0, 1);
    }
  });
}

TEST_CASE("long messages are whole when a receive or a send is over, on any number of threads", "[simulated]") {
  constexpr std::size_t kBytes = (std::size_t{256} << 10) + 5;
  const int threads = GENERATE(1, 2, 3);
  const std::size_t from = GENERATE(std::size_t{0}, std::size_t{3}), to = GENERATE(std::size_t{0}, std::size_t{7});
  VirtualRuntime runtime(threads, no_cost);
  std::vector<int> wrong(4, 0);
  run_simulated(runtime, 4, network(), [&](Communicator& world) {
    const int next = (world.rank() + 1) % 4, previous = (world.rank() + 3) % 4;
    std::vector<std::byte> sent(from + kBytes), received(to + kBytes);
    for (int round = 0; round < 3; ++round) {
      const auto value_of = [round](int rank, std::size_t i) {
        return static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank * 3 + round));
      };
      for (std::size_t i = 0; i < kBytes; ++i) sent[from + i] = value_of(world.rank(), i);
      const RequestPtr receive = world.start_receive(std::span(received).subspan(to), previous, 0);
      RequestPtr send = world.start_send(std::span(sent).subspan(from), next, 0);
      receive->wait();
      for (std::size_t i = 0; i < kBytes; ++i) {
        wrong[static_cast<std::size_t>(world.rank())] += received[to + i] != value_of(previous, i) ? 1 : 0;
      }
      if (round < 2) {
        send->wait();
      } else {
        runtime.sleep(10);  // it is over, and nobody asks
      }
    }
  });
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("messages arrive when those of a recorded run did", "[simulated]") {
  const std::vector<Arrival> times = {{.from = 0, .to = 1, .tag = 7, .seconds = 2},
                                      {.from = 0, .to = 1, .tag = 7, .seconds = 2.5},
                                      {.from = 0, .to = 1, .tag = 8, .seconds = 1}};
  RecordedArrivals recorded(times);
  SimulatedNetwork followed = network();
  followed.recorded = &recorded;
  std::vector<double> found;
  simulate(2, followed, [&](VirtualRuntime& runtime, Communicator& world) {
    std::vector<std::byte> bytes(10'000);
    runtime.sleep(10);
    world.begin_arrivals(0);
    for (const int tag : {7, 8, 7, 9}) {
      if (world.rank() == 0) {
        if (tag == 9) runtime.sleep(1);
        world.send(bytes, 1, tag);  // returns at once where the arrival is recorded
      } else {
        world.receive(bytes, 0, tag);
        found.push_back(runtime.seconds() - 10);
      }
    }
  });
  // The second one has come when the first has; of the last one nothing was recorded, and it is not late.
  const std::vector<double> expected = {2, 2, 2.5, 2.511};
  CHECK(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]));
  CHECK(recorded.followed() == 3);
  CHECK(recorded.missing() == 1);
  CHECK(recorded.late() == 0);
}

TEST_CASE("a message that is sent after its recorded arrival is counted", "[simulated]") {
  const std::vector<Arrival> times = {{.from = 0, .to = 1, .tag = 0, .seconds = 1}};
  RecordedArrivals recorded(times);
  SimulatedNetwork followed = network();
  followed.recorded = &recorded;
  simulate(2, followed, [&](VirtualRuntime& runtime, Communicator& world) {
    std::byte byte{};
    world.begin_arrivals(0);
    runtime.sleep(3);
    world.rank() == 0 ? world.send(std::span(&byte, 1), 1, 0) : world.receive(std::span(&byte, 1), 0, 0);
    EXPECT(runtime.seconds() == 3);
  });
  CHECK(recorded.late() == 1);
}

TEST_CASE("a rank that starts later sends and receives nothing before", "[simulated]") {
  SimulatedNetwork late = network();
  late.starts = {0, 5};
  std::map<int, double> found;
  simulate(2, late, [&](VirtualRuntime& runtime, Communicator& world) {
    std::byte byte{};
    world.barrier();
    EXPECT(runtime.seconds() < 0.01);
    world.begin_arrivals(0);
    if (world.rank() == 0) {
      world.receive(std::span(&byte, 1), 1, 0);
    } else {
      world.send(std::span(&byte, 1), 0, 0);
    }
    found[world.rank()] = runtime.seconds();
  });
  CHECK(found.at(1) == Approx(5).margin(0.01));
  CHECK(found.at(0) == Approx(5.001).margin(0.01));
}

TEST_CASE("a sum begins when the last rank has come, and takes as long as all slices both ways", "[simulated]") {
  simulate(4, network(), [&](VirtualRuntime& runtime, Communicator& world) {
    std::vector<float> values(1'000'000, static_cast<float>(world.rank() + 1));
    runtime.sleep(world.rank());
    world.allreduce_sum(std::span<float>(values));
    EXPECT(values.front() == 10 && values.back() == 10);
    EXPECT(std::abs(runtime.seconds() - (3 + 2 * (1e-3 + 0.75 * 4))) < 1e-9);
  });
}

TEST_CASE("simulated ranks that wait for ever are told so", "[simulated]") {
  const auto waits = [](VirtualRuntime&, Communicator& world) {
    std::byte nothing{};
    if (world.rank() == 0) world.receive(std::span(&nothing, 1), 1, 0);
  };
  CHECK_THROWS_WITH(simulate(2, network(), waits), Contains("all simulated ranks wait"));
}

TEST_CASE("the failure of a simulated rank ends the others", "[simulated]") {
  int peers_failed = 0;
  const auto fails = [&](VirtualRuntime& runtime, Communicator& world) {
    if (world.rank() == 1) {
      runtime.sleep(1);
      throw DataError("no examples");
    }
    try {
      world.barrier();
    } catch (const PeerFailure&) {
      ++peers_failed;
      throw;
    }
  };
  CHECK_THROWS_AS(simulate(3, network(), fails), DataError);
  CHECK(peers_failed == 2);
}

TEST_CASE("simulated ranks that call different collectives are named", "[simulated]") {
  const auto differ = [](VirtualRuntime&, Communicator& world) {
    double one = 1;
    world.rank() == 0 ? world.barrier() : world.allreduce_sum(std::span(&one, 1));
  };
  CHECK_THROWS_WITH(simulate(2, network(), differ), Contains("all ranks must call the same collectives"));
}

TEST_CASE("values are gathered on one rank, from its own on", "[simulated]") {
  const int ranks = GENERATE(1, 2, 5, 8);
  const int root = GENERATE(0, 1, 4);
  if (root >= ranks) return;
  simulate(ranks, network(), [&](VirtualRuntime&, Communicator& world) {
    const std::vector<int> own(static_cast<std::size_t>(world.rank() % 3), world.rank());
    const std::vector<int> found = world.gather_joined(own, root);
    std::vector<int> expected;
    for (int i = 0; world.rank() == root && i < ranks; ++i) {
      const int from = (root + i) % ranks;
      expected.insert(expected.end(), static_cast<std::size_t>(from % 3), from);
    }
    EXPECT(found == expected);
  });
}
