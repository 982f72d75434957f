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

}  // namespace
}  // namespace unisono
