#include "run/stop.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "unisono/session/job.hpp"

namespace unisono::session {
namespace {

TEST_CASE("signals mean the wish to stop while somebody listens", "[stop]") {
  const auto handler = [] {
    struct sigaction action {};
    sigaction(SIGTERM, nullptr, &action);
    return action.sa_handler;
  };
  const auto before = handler();
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const StopSignals signals;
    CHECK(signals.received() == 0);
    std::raise(signal);
    CHECK(signals.received() == signal);
    std::raise(SIGTERM);  // some senders send it twice: that changes nothing
    CHECK(signals.received() == signal);
  }
  CHECK(handler() == before);
}

TEST_CASE("a second demand ends the process at once", "[long][stop]") {
  // The last one must do it: the signals, and whether they end the process.
  const std::vector<std::pair<std::vector<int>, bool>> cases = {
      {{SIGTERM, SIGTERM}, true}, {{SIGINT, SIGTERM}, true}, {{SIGUSR1, SIGTERM}, false}, {{SIGTERM, SIGUSR1}, false}};
  for (const auto& [signals, ends] : cases) {
    const pid_t child = fork();
    if (child == 0) {
      hold_stop_signals();
      std::raise(signals.front());
      const StopSignals listening;
      usleep(300'000);
      std::raise(signals.back());
      _exit(listening.received() == signals.front() ? 75 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) == ends);
    CHECK((ends ? WTERMSIG(status) == signals.back() : WEXITSTATUS(status) == 75));
  }
}

TEST_CASE("all ranks stop at the same step, soon after one was told to", "[stop]") {
  const StopSignals signals;
  std::atomic<std::int64_t> stopped_at{0};
  std::raise(SIGUSR1);
  const auto wish = [&] { return signals.received() != 0 ? StopWish::signal : StopWish::none; };
  comm::run_as_threads(3, [&](comm::Communicator& world) {
    StopAgreement agreement(world, wish, 100);
    std::int64_t step = 101;
    while (agreement.agreed(step) != StopWish::signal) ++step;
    EXPECT(step == 101);
    stopped_at += step;
  });
  CHECK(stopped_at == 303);
}

TEST_CASE("ranks that nobody stops agree seldom, and at the same steps", "[stop]") {
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    StopAgreement agreement(
        world, [] { return StopWish::none; }, 0);
    // Ranks of different speed: were their next steps not agreed, they would wait for each other for ever.
    for (std::int64_t step = 1; step <= 40; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(world.rank() == 0 ? 1 : 2));
      EXPECT(agreement.agreed(step) == StopWish::none);
    }
  });
}

/// A clock that a test sets.
struct SetClock final : Clock {
  double now = 0;
  double seconds() const override { return now; }
};

TEST_CASE("a fast first step does not put off the next comparison", "[stop]") {
  SetClock clock;
  const auto alone = comm::make_self_communicator();
  StopAgreement agreement(
      *alone, [] { return StopWish::none; }, 0, clock);
  std::vector<std::int64_t> compared;
  for (std::int64_t step = 1; step <= 200; ++step) {
    clock.now += step == 1 ? 1e-5 : 5e-3;
    if (step == agreement.next_step()) compared.push_back(step);
    CHECK(agreement.agreed(step) == StopWish::none);
  }
  REQUIRE(compared.size() > 5);
  CHECK(compared[0] == 1);
  CHECK(compared[1] == 3);  // twice as far, although 5,000 such steps would take 50 ms
  for (std::size_t i = 5; i < compared.size(); ++i) CHECK(compared[i] - compared[i - 1] <= 10);
}

}  // namespace
}  // namespace unisono::session
