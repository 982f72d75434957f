#include "source/batch_sources.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>

#include "sets.hpp"

using namespace unisono::data;

namespace {

std::vector<unisono::data::PreparedBatch> buffers(std::size_t count) {
  return std::vector<unisono::data::PreparedBatch>(count);
}

}  // namespace

TEST_CASE("batches come in order, and the one in use is not overwritten", "[prefetch]") {
  std::int64_t next = 0;
  unisono::data::Prefetcher prefetcher(buffers(2), [&](unisono::data::PreparedBatch& prepared) {
    prepared.batch.epoch = next++;
    return next <= 1000;
  });
  for (std::int64_t i = 0; i < 1000; ++i) {
    const unisono::data::Batch* batch = prefetcher.next();
    REQUIRE(batch != nullptr);
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // time for the thread to do wrong
    REQUIRE(batch->epoch == i);
  }
  CHECK(prefetcher.next() == nullptr);
  CHECK(prefetcher.next() == nullptr);
}

TEST_CASE("no more batches are prepared ahead than there are buffers for", "[prefetch]") {
  std::atomic<int> prepared = 0;
  unisono::data::Prefetcher prefetcher(buffers(3), [&](unisono::data::PreparedBatch&) { return ++prepared < 100; });
  prefetcher.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(prepared <= 3);  // the one in use and two more
}

TEST_CASE("an exception comes to the user in its turn", "[prefetch]") {
  int calls = 0;
  unisono::data::Prefetcher prefetcher(buffers(3), [&](unisono::data::PreparedBatch&) {
    if (++calls == 3) throw unisono::DataError("the third");
    return true;
  });
  CHECK(prefetcher.next() != nullptr);
  CHECK(prefetcher.next() != nullptr);
  CHECK(unisono::test::message_of<unisono::DataError>([&] { prefetcher.next(); }) == "the third");
}

TEST_CASE("waiting is measured", "[prefetch]") {
  unisono::data::Prefetcher prefetcher(buffers(2), [&](unisono::data::PreparedBatch&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return true;
  });
  prefetcher.next();
  prefetcher.next();
  CHECK(prefetcher.wait_seconds() > 0.03);
}

TEST_CASE("a prefetcher ends at any time", "[prefetch]") {
  for (int i = 0; i < 50; ++i) {
    unisono::data::Prefetcher prefetcher(buffers(2), [](unisono::data::PreparedBatch&) { return true; });
    if (i % 2 == 0) prefetcher.next();
  }
}
