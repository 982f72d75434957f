#include "unisono/parallel/exchange.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

namespace unisono::parallel {

TEST_CASE("jobs run in their order, and can be waited for", "[background]") {
  std::vector<int> order;
  Background background("a test");
  std::vector<comm::RequestPtr> jobs;
  for (int i = 0; i < 100; ++i) jobs.push_back(background.start([&order, i] { order.push_back(i); }));
  for (const comm::RequestPtr& job : jobs) job->wait();
  REQUIRE(order.size() == 100);
  CHECK(std::ranges::is_sorted(order));
  CHECK(jobs.back()->test());
}

TEST_CASE("what a job throws is thrown to those that wait for it or for later ones, which do not run", "[background]") {
  Background background("a test");
  bool later = false;
  const auto failing = background.start([] { throw std::runtime_error("no"); });
  const auto next = background.start([&later] { later = true; });
  CHECK_THROWS_WITH(failing->wait(), "no");
  CHECK_THROWS_WITH(next->wait(), "no");
  CHECK_FALSE(later);
}

TEST_CASE("jobs that have not begun are dropped at the end", "[background]") {
  std::atomic<bool> goes_on = false;
  std::atomic<int> ran = 0;
  std::thread opener;
  {
    Background background("a test");
    const auto first = background.start([&] {
      ++ran;
      while (!goes_on) std::this_thread::yield();
    });
    while (ran == 0) std::this_thread::yield();
    const auto second = background.start([&] { ++ran; });
    CHECK_FALSE(second->test());
    CHECK_FALSE(second->wait_unless([] { return true; }));
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      goes_on = true;
    });
  }
  opener.join();
  CHECK(ran == 1);
}

}  // namespace unisono::parallel
