#include "unisono/comm/buckets.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "expect.hpp"

using namespace unisono::comm;

namespace {

void fill(unisono::MutableView gradient, int rank) {
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>((rank + 1) * static_cast<int>(i % 7));
}

bool is_sum(unisono::View gradient, int ranks) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (gradient[i] != static_cast<float>(ranks * (ranks + 1) / 2 * static_cast<int>(i % 7))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("buckets sum the gradient, however the ranges come", "[buckets]") {
  const unisono::Index bucket_bytes = GENERATE(0, 1, 64, 1000, 4096, 1 << 20);
  const std::vector<unisono::Index> bounds =
      GENERATE(std::vector<unisono::Index>{0, 10'000}, std::vector<unisono::Index>{0, 16, 4096, 9999, 10'000},
               std::vector<unisono::Index>{0, 3333, 5000, 5001, 5002, 10'000});
  const int ranks = GENERATE(1, 2, 3);
  CHECK_NOTHROW(unisono::comm::run_as_threads(ranks, [&](unisono::comm::Communicator& communicator) {
    unisono::Buffer gradient(10'000, communicator.shared_allocator());
    unisono::comm::GradientBuckets buckets(communicator, gradient.view(), bucket_bytes);
    for (int step = 0; step < 3; ++step) {
      fill(gradient.view(), communicator.rank());
      for (std::size_t i = bounds.size(); i-- > 1;) buckets.ready(bounds[i - 1], bounds[i]);
      buckets.finish();
      EXPECT(is_sum(gradient.view(), communicator.size()));
    }
  }));
}

TEST_CASE("ranks may announce their ranges differently", "[buckets]") {
  CHECK_NOTHROW(unisono::comm::run_as_threads(3, [](unisono::comm::Communicator& communicator) {
    unisono::Buffer gradient(1000, communicator.shared_allocator());
    unisono::comm::GradientBuckets buckets(communicator, gradient.view(), 256);
    fill(gradient.view(), communicator.rank());
    if (communicator.rank() == 0) buckets.ready(0, 1000);
    if (communicator.rank() == 1) {
      for (unisono::Index first = 990; first >= 0; first -= 10) buckets.ready(first, first + 10);
    }
    buckets.finish();  // rank 2, without examples, announces nothing
    EXPECT(is_sum(gradient.view(), 3));
  }));
}

TEST_CASE("a bucket that is final is summed before the rest of the gradient is", "[buckets]") {
  CHECK_NOTHROW(unisono::comm::run_as_threads(2, [](unisono::comm::Communicator& communicator) {
    unisono::Buffer gradient(32, communicator.shared_allocator());
    fill(gradient.view(), communicator.rank());
    unisono::comm::GradientBuckets buckets(communicator, gradient.view(), 64);
    buckets.ready(16, 32);
    communicator.barrier();  // both have started [16, 32): in this room its sum is there
    const float mine = static_cast<float>(communicator.rank() + 1);
    EXPECT(gradient.data()[16] == 3 * 2 && gradient.data()[17] == 3 * 3);  // 16 mod 7 = 2
    EXPECT(gradient.data()[1] == mine && gradient.data()[2] == 2 * mine);
    buckets.finish();
    EXPECT(is_sum(gradient.view(), 2));
  }));
}

TEST_CASE("an empty gradient needs no message", "[buckets]") {
  const auto self = unisono::comm::make_self_communicator();
  unisono::comm::GradientBuckets buckets(*self, {}, 0);
  buckets.finish();
  CHECK(buckets.exposed_seconds() < 1);
}

TEST_CASE("waiting for a straggler is told apart from the transfer", "[buckets]") {
  constexpr double kDelay = 0.2;
  std::atomic<double> straggler_of_punctual = 0, exposed_of_punctual = 0, straggler_of_late = 1, total_of_punctual = 0;
  unisono::comm::run_as_threads(2, [&](unisono::comm::Communicator& communicator) {
    unisono::Buffer gradient(1000, communicator.shared_allocator());
    unisono::comm::GradientBuckets buckets(communicator, gradient.view(), 1024);
    communicator.barrier();
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::duration<double>(kDelay));
    const unisono::Stopwatch watch;
    buckets.ready(500, 1000);
    buckets.finish();
    if (communicator.rank() == 0) {
      total_of_punctual = watch.seconds();
      straggler_of_punctual = buckets.straggler_wait_seconds();
      exposed_of_punctual = buckets.exposed_seconds();
    } else {
      straggler_of_late = buckets.straggler_wait_seconds();
    }
  });
  // The sleep is at least as long as asked for; the punctual rank began to wait at most one scheduling later.
  CHECK(straggler_of_punctual > kDelay / 2);
  CHECK(straggler_of_late < kDelay / 2);
  CHECK(exposed_of_punctual < kDelay / 2);
  CHECK(straggler_of_punctual + exposed_of_punctual <= total_of_punctual);
}
