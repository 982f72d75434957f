#include "unisono/base/clock.hpp"

#include <catch2/catch.hpp>
#include <thread>

namespace unisono {
namespace {

constexpr std::chrono::milliseconds kPause(20);
constexpr double kPauseSeconds = 0.02;

TEST_CASE("a stopwatch counts from its last start", "[clock]") {
  Stopwatch watch;
  std::this_thread::sleep_for(kPause);
  const double before = watch.seconds();
  const double elapsed = watch.restart();
  const double after = watch.seconds();
  CHECK(before >= kPauseSeconds);
  CHECK(elapsed >= before);
  CHECK(after >= 0);
  CHECK(after < elapsed + 1);
}

TEST_CASE("a scoped timer adds its scope to the total", "[clock]") {
  double total = 100;
  for (int i = 0; i < 2; ++i) {
    const ScopedTimer timer(total);
    std::this_thread::sleep_for(kPause);
  }
  CHECK(total >= 100 + 2 * kPauseSeconds);
}

class SetClock final : public Clock {
 public:
  double seconds() const override { return now; }
  double now = 100;
};

TEST_CASE("stopwatches and timers follow the clock that they are given", "[clock]") {
  SetClock clock;
  double total = 1;
  {
    Stopwatch watch(clock);
    const ScopedTimer timer(total, clock);
    clock.now += 60;
    CHECK(watch.seconds() == 60);
    CHECK(watch.restart() == 60);
    clock.now += 5;
    CHECK(watch.seconds() == 5);
  }
  CHECK(total == 66);
}

}  // namespace
}  // namespace unisono
