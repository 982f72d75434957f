#include "unisono/parallel/exchange.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>

#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {
namespace {

/// Takes the seconds that it is told to take.
class FakeExchange final : public parallel::GradientExchange {
 public:
  explicit FakeExchange(std::vector<std::pair<Index, Index>>& calls) : calls_(calls) {}
  parallel::GradientTarget target(const parallel::MicroBatchPlace&) override { return {}; }
  void ready(const parallel::MicroBatchPlace&, Index first, Index last) override {
    calls_.emplace_back(first, last);
    blocked_.communication += 2;
    blocked_.stragglers += 1;
  }
  void finish() override {
    calls_.emplace_back(-1, -1);
    blocked_.communication += 8;
    blocked_.stragglers += 4;
  }
  BlockedSeconds blocked() const override { return blocked_; }

 private:
  std::vector<std::pair<Index, Index>>& calls_;
  BlockedSeconds blocked_;
};

}  // namespace

TEST_CASE("the bucketed sum is that of all ranks, step after step, whether ranges were ready or not", "[exchange]") {
  for (const bool says_ready : {false, true}) {
    std::atomic<int> right = 0, blocked = 0;
    comm::run_as_threads(3, [&](comm::Communicator& communicator) {
      Buffer gradient(100, communicator.shared_allocator());
      const auto exchange = parallel::make_bucketed_sum(communicator, gradient.view(), 64);
      for (int step = 0; step < 2; ++step) {
        std::iota(gradient.view().begin(), gradient.view().end(), static_cast<float>(communicator.rank() + step));
        if (says_ready) exchange->ready({}, 40, 100);
        exchange->finish();
        for (Index i = 0; i < 100; ++i) {
          right += gradient.view()[static_cast<std::size_t>(i)] == static_cast<float>(3 * i + 3 + 3 * step) ? 1 : 0;
        }
        communicator.barrier();  // all have looked
      }
      blocked += exchange->blocked().communication > 0 ? 1 : 0;
    });
    CHECK(right == 3 * 2 * 100);
    CHECK(blocked == 3);
  }
}

TEST_CASE("what an exchange holds up is no computation, and is counted once", "[exchange][seconds]") {
  const auto backend = kernels::make_cpu_backend(1);
  Seconds seconds;
  std::vector<std::pair<Index, Index>> calls;
  parallel::TimedExchange exchange(*backend, seconds, std::make_unique<FakeExchange>(calls));
  exchange.ready({}, 3, 5);  // in a pass, which counts all of its time as computation
  CHECK(seconds.compute == -3);
  CHECK(seconds.exposed_communication == 2);
  CHECK(seconds.straggler_wait == 1);
  exchange.finish();
  CHECK(seconds.compute == -3);
  CHECK(seconds.exposed_communication == 10);
  CHECK(seconds.straggler_wait == 5);
  CHECK(calls == std::vector<std::pair<Index, Index>>{{3, 5}, {-1, -1}});
}

}  // namespace unisono::strategies
