#include "unisono/models/in_place.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "unisono/base/random.hpp"

namespace unisono::models {
namespace {

/// Other threads, which try to lock. They end when the locks are free: declared before what holds them.
class Others {
 public:
  explicit Others(RowLocks& locks) : locks_(locks) {}
  ~Others() {
    for (std::thread& thread : threads_) thread.join();
  }
  Others(const Others&) = delete;

  /// Whether another thread gets the lock of a row soon.
  bool get(std::size_t space, Index row) {
    const auto got = std::make_shared<std::atomic<bool>>(false);
    threads_.emplace_back([this, got, space, row] {
      RowLocks::Set rows;
      rows.add(locks_, space, row);
      const auto guard = locks_.lock(rows);
      *got = true;
    });
    for (int i = 0; i < 50 && !*got; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return *got;
  }

 private:
  RowLocks& locks_;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("a guard holds its rows' locks until its end", "[locks]") {
  RowLocks locks(8);
  Others others(locks);
  RowLocks::Set rows;
  rows.add(locks, 0, 3);
  rows.add(locks, 0, 5);
  {
    const auto guard = locks.lock(rows);
    CHECK_FALSE(others.get(0, 3));
    CHECK_FALSE(others.get(0, 13));  // row 13 of 8 stripes is on row 5's
    CHECK(others.get(0, 4));
  }
  CHECK(others.get(0, 3));
  CHECK(others.get(0, 5));
}

TEST_CASE("a guard that is moved hands its locks over, once", "[locks]") {
  RowLocks locks(4);
  Others others(locks);
  RowLocks::Set rows;
  rows.add(locks, 0, 1);
  std::optional<RowLocks::Guard> guard;
  guard.emplace(locks.lock(rows));
  CHECK_FALSE(others.get(0, 1));
  guard.reset();
  CHECK(others.get(0, 1));
}

TEST_CASE("one lock for all rows excludes everything", "[locks]") {
  RowLocks locks(1);
  Others others(locks);
  RowLocks::Set rows;
  rows.add(locks, 0, 1);
  rows.add(locks, 1, 77);  // the same lock, which is taken once
  const auto guard = locks.lock(rows);
  CHECK_FALSE(others.get(5, 1234));
}

TEST_CASE("a set of no rows takes no lock", "[locks]") {
  RowLocks locks(2);
  RowLocks::Set rows, all;
  const auto none = locks.lock(rows);
  all.add(locks, 0, 0);
  all.add(locks, 0, 1);
  const auto guard = locks.lock(all);
}

TEST_CASE("threads that lock overlapping rows in any order neither meet nor wait in a circle", "[locks][threads]") {
  constexpr int kThreads = 4, kRounds = 4000;
  constexpr std::size_t kRows = 6;
  for (const int stripes : {1, 4, 64}) {
    RowLocks locks(stripes);
    std::array<std::int64_t, kRows> counts{};  // plain numbers: a lost update would show
    std::array<std::atomic<int>, kRows> inside{};
    std::atomic<int> together{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        RandomStream random(1, Purpose::test, static_cast<std::uint64_t>(number));
        RowLocks::Set rows;
        for (int round = 0; round < kRounds; ++round) {
          std::array<std::size_t, 3> chosen{};
          rows.clear();
          for (std::size_t& row : chosen) {
            row = random.below(kRows);
            rows.add(locks, 0, static_cast<Index>(row));
          }
          const auto guard = locks.lock(rows);
          for (const std::size_t row : chosen) {
            if (std::count(chosen.begin(), chosen.end(), row) > 1) continue;
            if (inside[row]++ > 0) ++together;
            ++counts[row];
            --inside[row];
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(together == 0);
    std::int64_t all = 0;
    for (const std::int64_t count : counts) all += count;
    std::int64_t expected = 0;
    for (int number = 0; number < kThreads; ++number) {
      RandomStream random(1, Purpose::test, static_cast<std::uint64_t>(number));
      for (int round = 0; round < kRounds; ++round) {
        std::array<std::size_t, 3> chosen{};
        for (std::size_t& row : chosen) row = random.below(kRows);
        for (const std::size_t row : chosen) expected += std::count(chosen.begin(), chosen.end(), row) == 1 ? 1 : 0;
      }
    }
    CHECK(all == expected);
  }
}

}  // namespace unisono::models
