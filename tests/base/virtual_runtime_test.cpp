#include "unisono/base/virtual_runtime.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/threads.hpp"

namespace unisono {
namespace {

/// A worker's computation on n examples takes (worker + 1) · n seconds.
double cost(int worker, std::int64_t examples, std::uint64_t) { return static_cast<double>((worker + 1) * examples); }

void never_stuck() { FAIL("everybody waits"); }

TEST_CASE("simulated sleeps end in the order of their times, at once", "[virtual]") {
  VirtualRuntime runtime(1, cost);
  std::vector<std::string> said;
  const auto say = [&](int worker) {
    said.push_back(std::to_string(worker) + "@" + std::to_string(static_cast<int>(runtime.seconds())));
  };
  const Stopwatch watch;
  runtime.run(
      3,
      [&](int worker) {
        runtime.sleep(30 - 10 * worker);
        say(worker);
        runtime.sleep(100);
        say(worker);
      },
      never_stuck);
  CHECK(said == std::vector<std::string>{"2@10", "1@20", "0@30", "2@110", "1@120", "0@130"});
  CHECK(runtime.seconds() == 130);
  CHECK(watch.seconds() < 60);
}

TEST_CASE("at the same simulated moment whoever asked first goes on first", "[virtual]") {
  VirtualRuntime runtime(1, cost);
  std::vector<int> order;
  runtime.run(
      4,
      [&](int worker) {
        for (int i = 0; i < 2; ++i) {
          order.push_back(worker);
          runtime.sleep(1);
        }
      },
      never_stuck);
  CHECK(order == std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3});
}

TEST_CASE("computations are made on any number of threads, and take the time that their cost says", "[virtual]") {
  for (const int threads : {1, 2, 4}) {
    VirtualRuntime runtime(threads, cost);
    std::vector<double> results(50), ends(50);
    runtime.run(
        50,
        [&](int worker) {
          const auto own = static_cast<std::size_t>(worker);
          for (int i = 0; i < 20; ++i) {
            runtime.compute(2, [&] { results[own] = results[own] * 1.5 + worker + i; });
          }
          ends[own] = runtime.seconds();
        },
        never_stuck);
    CHECK(runtime.computations() == 50 * 20);
    for (std::size_t worker = 0; worker < 50; ++worker) {
      double expected = 0;
      for (int i = 0; i < 20; ++i) expected = expected * 1.5 + static_cast<double>(worker) + i;
      CHECK(results[worker] == expected);
      CHECK(ends[worker] == 20.0 * 2 * static_cast<double>(worker + 1));
    }
  }
}

TEST_CASE("who waits for a computation that another thread makes makes others meanwhile", "[virtual]") {
  const auto wait_for = [](const std::atomic<bool>& happens) {
    constexpr double kPatience = 20;  // seconds
    const Stopwatch watch;
    while (!happens && watch.seconds() < kPatience) std::this_thread::yield();
    return happens.load();
  };
  VirtualRuntime runtime(2, cost);
  std::atomic<bool> first_begins = false, second_begins = false, was_seen = false;
  runtime.run(
      2,
      [&](int worker) {
        if (worker == 0) {
          runtime.compute(1, [&] {
            first_begins = true;
            was_seen = wait_for(second_begins);
          });
        } else {
          wait_for(first_begins);  // on the other thread
          runtime.compute(1, [&] { second_begins = true; });
        }
      },
      never_stuck);
  CHECK(was_seen);
}

TEST_CASE("updates take a time for each parameter, and others go on meanwhile", "[virtual]") {
  constexpr double kSecondsOfParameter = 0.5;
  for (const int threads : {1, 2, 4}) {
    VirtualRuntime runtime(threads, cost, kSecondsOfParameter);
    std::vector<int> updated(4), seen(4);
    std::vector<double> ends;
    runtime.run(
        4,
        [&](int worker) {
          const auto own = static_cast<std::size_t>(worker);
          runtime.update(4 - worker, [&updated, own] { updated[own] = 1; });
          seen[own] = updated[own];
          ends.push_back(runtime.seconds());
        },
        never_stuck);
    CHECK(seen == std::vector<int>(4, 1));
    CHECK(ends == std::vector<double>{0.5, 1, 1.5, 2});
  }
}

TEST_CASE("work that takes no simulated time is done when it is joined, also twice", "[virtual]") {
  for (const int threads : {1, 2, 4}) {
    VirtualRuntime runtime(threads, cost);
    std::vector<int> made(8), seen(8);
    runtime.run(
        8,
        [&](int worker) {
          const auto own = static_cast<std::size_t>(worker);
          const auto begun = runtime.begin([&made, own] { ++made[own]; });
          runtime.sleep(1);
          begun->join();
          begun->join();
          seen[own] = made[own];
        },
        never_stuck);
    CHECK(seen == std::vector<int>(8, 1));
    CHECK(runtime.seconds() == 1);
    CHECK(runtime.computations() == 0);
  }
}

TEST_CASE("parts of a computation are handed on while it takes time", "[virtual]") {
  for (const int threads : {1, 3}) {
    VirtualRuntime runtime(threads, cost);
    std::vector<double> moments;
    runtime.run(
        2,
        [&](int worker) {
          if (worker == 0) return runtime.sleep(7);
          bool is_done = false;
          runtime.compute(  // from 0 to 20 seconds
              10, [&] { is_done = true; }, 0.25,
              [&](const Runtime::PassUntil& pass_until) {
                CHECK(is_done);
                moments.push_back(runtime.seconds());
                pass_until(0.5);
                moments.push_back(runtime.seconds());
                pass_until(0.4);  // has passed
                moments.push_back(runtime.seconds());
              });
          moments.push_back(runtime.seconds());
        },
        never_stuck);
    CHECK(moments == std::vector<double>{5, 10, 10, 20});
    runtime.run(
        1,
        [&](int) {
          CHECK_THROWS_AS(runtime.compute(
                              1, [] { throw std::runtime_error("wrong"); }, 0.5,
                              [](const Runtime::PassUntil&) { FAIL("there is nothing to hand on"); }),
                          std::runtime_error);
        },
        never_stuck);
  }
}

TEST_CASE("what a computation throws, its worker gets when the time is over", "[virtual]") {
  VirtualRuntime runtime(2, cost);
  std::string caught;
  runtime.run(
      2,
      [&](int worker) {
        try {
          runtime.compute(3, [&] {
            if (worker == 1) throw std::runtime_error("no gradient");
          });
        } catch (const std::runtime_error& error) {
          caught = error.what() + std::string(" at ") + std::to_string(static_cast<int>(runtime.seconds()));
        }
      },
      never_stuck);
  CHECK(caught == "no gradient at 6");
}

TEST_CASE("exceptions of one worker stay its own while others go on", "[virtual]") {
  VirtualRuntime runtime(1, cost);
  std::vector<std::string> caught(3);
  runtime.run(
      3,
      [&](int worker) {
        const auto own = static_cast<std::size_t>(worker);
        try {
          throw std::runtime_error(std::to_string(worker));
        } catch (...) {
          runtime.sleep(3 - worker);  // the others are in their handlers, too
          try {
            throw;
          } catch (const std::exception& error) {
            caught[own] = error.what();
          }
        }
      },
      never_stuck);
  CHECK(caught == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("a worker's threads and conditions are simulated, too", "[virtual]") {
  VirtualRuntime runtime(1, cost);
  std::vector<std::string> said;
  runtime.run(
      1,
      [&](int) {
        std::mutex mutex;
        Condition changed(runtime);
        int stage = 0;
        Threads threads("a test", 1, runtime);
        threads.start([&] {
          runtime.sleep(5);
          const std::lock_guard lock(mutex);
          stage = 1;
          changed.notify_all();
        });
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return stage == 1; });
        }
        said.push_back("told at " + std::to_string(static_cast<int>(runtime.seconds())));
        threads.join();
        ThreadTeam team(3, "a test", runtime);
        team.run([&](int thread) { runtime.sleep(10 * thread); });
        said.push_back("team ended at " + std::to_string(static_cast<int>(runtime.seconds())));
        for (Idle idle(1000, runtime); runtime.seconds() < 26; idle.pause()) {
        }
      },
      never_stuck);
  CHECK(said == std::vector<std::string>{"told at 5", "team ended at 25"});
  CHECK(runtime.seconds() == Approx(26).margin(1e-3));
}

TEST_CASE("whoever waits for something looks again when others of the same worker have run, or somebody pokes",
          "[virtual]") {
  VirtualRuntime runtime(1, cost);
  bool own = false, from_outside = false;
  std::vector<double> seen;
  runtime.run(
      1,
      [&](int worker) {
        Threads threads("a test", 1, runtime);
        threads.start([&] {
          runtime.sleep(2);
          own = true;
        });
        runtime.at(7, [&, worker] {
          from_outside = true;
          runtime.poke(worker);
        });
        runtime.block_until([&] { return own; });
        seen.push_back(runtime.seconds());
        runtime.block_until([&] { return from_outside; });
        seen.push_back(runtime.seconds());
        threads.join();
      },
      never_stuck);
  CHECK(seen == std::vector<double>{2, 7});
}

TEST_CASE("where everybody waits for ever, somebody is told", "[virtual]") {
  VirtualRuntime runtime(1, cost);
  bool stuck = false;
  runtime.run(
      2, [&](int) { runtime.block_until([&] { return stuck; }); },
      [&] {
        stuck = true;
        for (int worker = 0; worker < 2; ++worker) runtime.poke(worker);
      });
  CHECK(stuck);
  VirtualRuntime hopeless(1, cost);
  CHECK_THROWS_AS(hopeless.run(
                      1, [&](int) { hopeless.block_until([] { return false; }); }, [] {}),
                  std::logic_error);
}

TEST_CASE("thousands of workers fit into one process", "[virtual]") {
  VirtualRuntime runtime(1, cost);
  std::int64_t sum = 0;
  runtime.run(
      5000,
      [&](int worker) {
        runtime.sleep(1 + worker % 7);
        sum += worker;
      },
      never_stuck);
  CHECK(sum == 5000 * 4999 / 2);
}

}  // namespace
}  // namespace unisono
