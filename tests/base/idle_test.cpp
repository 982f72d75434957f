#include "unisono/base/clock.hpp"

#include <atomic>
#include <catch2/catch.hpp>

#include "unisono/base/threads.hpp"

namespace unisono {

TEST_CASE("a pause spins so many times and sleeps from then on", "[idle]") {
  Idle idle(2);
  CHECK(idle.spins());
  idle.pause();
  CHECK(idle.spins());
  idle.pause();
  CHECK_FALSE(idle.spins());
  for (int i = 0; i < 200; ++i) idle.pause();  // all lengths of sleep
  CHECK_FALSE(idle.spins());
}

TEST_CASE("who waits sees what another thread changes", "[idle]") {
  std::atomic<int> turns{0};
  Threads other("the test");
  other.start([&] {
    Idle idle(1);
    while (turns < 1) idle.pause();
    turns = 2;
  });
  turns = 1;
  for (Idle idle(1); turns < 2; idle.pause()) continue;
  other.join();
  CHECK(turns == 2);
}

}  // namespace unisono
