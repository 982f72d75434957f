#include "sharing/relay.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "expect.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::strategies {
namespace {

constexpr std::int64_t kUpdates = 20;  ///< of each rank in a segment

void hesitate(RandomStream& random) {
  if (random.below(3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
}

/// Bytes that no other update has.
std::byte byte_of(int sender, std::int64_t number, std::size_t place) {
  return static_cast<std::byte>(static_cast<std::size_t>(number) * 7 + static_cast<std::size_t>(sender) * 31 + place);
}

SharedUpdate update_of(int sender, std::int64_t number) {
  SharedUpdate update{.sender = sender, .read = number, .bytes = 16 + number * 13 % 200};
  update.words = std::make_shared<std::vector<std::uint64_t>>(static_cast<std::size_t>((update.bytes + 7) / 8));
  for (std::size_t i = 0; i < update.message().size(); ++i) update.message()[i] = byte_of(sender, number, i);
  return update;
}

/// Takes an update that must be the next one of its sender.
void check_off(const SharedUpdate& update, std::vector<std::int64_t>& seen) {
  std::int64_t& number = seen.at(static_cast<std::size_t>(update.sender));
  EXPECT(update.read == number);
  EXPECT(update.bytes == 16 + number * 13 % 200);
  for (std::size_t i = 0; i < update.message().size(); ++i) {
    EXPECT(update.message()[i] == byte_of(update.sender, number, i));
  }
  ++number;
}

/// \return what each rank has seen of each
void share_all(Relay& relay, comm::Communicator& ranks, RandomStream& random) {
  std::vector<std::int64_t> seen(static_cast<std::size_t>(ranks.size()));
  relay.begin(0);
  for (std::int64_t number = 0; number < kUpdates; ++number) {
    hesitate(random);
    relay.share(update_of(ranks.rank(), number));
    while (const auto update = relay.take()) check_off(*update, seen);
  }
  relay.leave();
  while (const auto update = relay.wait()) check_off(*update, seen);
  relay.end();
  EXPECT(!relay.take());
  for (int sender = 0; sender < ranks.size(); ++sender) {
    EXPECT(seen[static_cast<std::size_t>(sender)] == (sender == ranks.rank() ? 0 : kUpdates));
  }
}

}  // namespace

TEST_CASE("while all ranks wait for steps, none is granted two more than another", "[sharing]") {
  constexpr int kRanks = 5;
  StepQueue queue(kRanks);
  std::vector<std::int64_t> granted(kRanks);
  for (const std::int64_t steps : {11, 40, 3}) {  // segments whose steps are no multiple of the ranks
    queue.begin(steps);
    for (int rank = 0; rank < kRanks; ++rank) queue.ask(rank);
    for (std::int64_t left = steps - 1; left >= 0; --left) {
      const auto grant = queue.next();
      REQUIRE(grant);
      CHECK(grant->left == left);
      ++granted.at(static_cast<std::size_t>(grant->rank));
      CHECK(std::ranges::max(granted) - std::ranges::min(granted) <= 1);
      queue.ask(grant->rank);
    }
    for (int rank = 0; rank < kRanks; ++rank) CHECK(queue.next()->left == -1);  // each is told that none is left
    CHECK(!queue.next());
  }
}

TEST_CASE("a rank that asks late is granted steps before those that have made more", "[sharing]") {
  StepQueue queue(2);
  queue.begin(20);
  for (int made = 0; made < 5; ++made) {
    queue.ask(0);
    CHECK(queue.next()->rank == 0);
    CHECK(!queue.next());
  }
  queue.ask(0);
  for (int made = 0; made < 5; ++made) {
    queue.ask(1);
    CHECK(queue.next()->rank == 1);
  }
  queue.ask(1);
  CHECK(queue.next()->rank == 0);
  CHECK(queue.next()->rank == 1);
}

/// All ranks ask for steps until none is left, and the first one asks for its own like all others.
TEST_CASE("all steps of a segment are dealt out, on any number of ranks", "[sharing]") {
  for (const int ranks : {1, 2, 3, 5}) {
    comm::run_as_threads(ranks, [](comm::Communicator& communicator) {
      Relay relay(communicator);
      for (const std::int64_t steps : {1, 7, 64}) {
        std::int64_t made = 0;
        relay.begin(steps);
        while (relay.ask_for_step()) ++made;
        relay.leave();
        while (relay.wait()) {
        }
        relay.end();
        EXPECT(communicator.sum(made) == steps);
      }
    });
  }
}

TEST_CASE("the tree joins all ranks by one edge less than there are of them, at most three each", "[sharing]") {
  for (int ranks = 1; ranks <= 20; ++ranks) {
    std::size_t ends = 0;
    std::set<int> reached = {0};
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> neighbours = tree_neighbours(rank, ranks);
      CHECK(neighbours.size() <= 3);
      ends += neighbours.size();
      for (const int other : neighbours) {
        CHECK(std::ranges::count(tree_neighbours(other, ranks), rank) == 1);
        if (reached.contains(rank)) reached.insert(other);
      }
    }
    CHECK(ends == 2 * static_cast<std::size_t>(ranks - 1));
    CHECK(reached.size() == static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("every update comes to every other rank once, in its sender's order, whatever delays there are",
          "[sharing]") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    comm::run_as_threads(ranks, [](comm::Communicator& group) {
      RandomStream random(3, Purpose::test, static_cast<std::uint64_t>(group.rank()));
      Relay relay(group);
      constexpr int kSegments = 3;
      for (int segment = 0; segment < kSegments; ++segment) share_all(relay, group, random);
      // Each update takes P − 1 messages.
      const std::int64_t all = group.sum(relay.sent_updates());
      EXPECT(all == kSegments * kUpdates * group.size() * (group.size() - 1));
      EXPECT(group.sum(relay.sent_bytes()) >= all * (16 + 24));
    });
  }
}

TEST_CASE("a rank may wait for the next update of one sender while others have come", "[sharing]") {
  comm::run_as_threads(3, [](comm::Communicator& group) {
    Relay relay(group);
    relay.begin(0);
    for (std::int64_t number = 0; number < kUpdates; ++number) relay.share(update_of(group.rank(), number));
    std::vector<std::int64_t> seen(3);
    for (int sender = 2; sender >= 0; --sender) {
      for (std::int64_t number = 0; sender != group.rank() && number < kUpdates; ++number) {
        const SharedUpdate update = relay.wait_for(sender);
        EXPECT(update.sender == sender);
        check_off(update, seen);
      }
    }
    relay.leave();
    EXPECT(!relay.wait());
    bool refused = false;
    try {
      relay.wait_for(0);
    } catch (const CheckpointError&) {
      refused = true;
    }
    EXPECT(refused);
    relay.end();
  });
}

TEST_CASE("all steps are dealt out, and no more", "[sharing]") {
  for (const int ranks : {1, 2, 3, 5}) {
    comm::run_as_threads(ranks, [](comm::Communicator& group) {
      RandomStream random(5, Purpose::test, static_cast<std::uint64_t>(group.rank()));
      Relay relay(group);
      for (const std::int64_t steps : {1, 2, 37}) {
        relay.begin(steps);
        std::int64_t own = 0;
        while (relay.ask_for_step()) {
          ++own;
          hesitate(random);
        }
        relay.leave();
        EXPECT(!relay.wait());
        relay.end();
        EXPECT(group.sum(own) == steps);
      }
    });
  }
}

TEST_CASE("a rank that fails ends the others' waits", "[sharing]") {
  const auto run = [](bool others_have_left) {
    comm::run_as_threads(4, [others_have_left](comm::Communicator& group) {
      Relay relay(group);
      relay.begin(0);
      if (group.rank() == 2) {
        while (others_have_left && relay.wait()) {
        }
        throw DataError("a rank failed");
      }
      if (others_have_left) relay.leave();
      while (relay.wait()) {
      }
      relay.end();
    });
  };
  CHECK_THROWS_WITH(run(false), Catch::Contains("a rank failed"));
  CHECK_THROWS_WITH(run(true), Catch::Contains("a rank failed"));
}

}  // namespace unisono::strategies
