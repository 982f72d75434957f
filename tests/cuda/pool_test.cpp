#include "cuda/pool.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

using Catch::Matchers::Contains;

/// Memory of so many bytes, which counts what is asked of it.
struct FakeMemory {
  std::size_t capacity = std::size_t{64} << 20, used = 0;
  int allocations = 0, releases = 0;
  std::map<void*, std::size_t> blocks;

  RawMemory raw() {
    return {.allocate = [this](std::size_t bytes) -> void* {
              if (used + bytes > capacity) return nullptr;
              ++allocations;
              used += bytes;
              void* const block = std::malloc(bytes);
              blocks[block] = bytes;
              return block;
            },
            .release =
                [this](void* block) {
                  ++releases;
                  used -= blocks.at(block);
                  blocks.erase(block);
                  std::free(block);
                },
            .free_bytes = [this] { return capacity - used; }};
  }
};

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST_CASE("sizes are rounded to 512 bytes, large ones to 2 MiB", "[gpu][pool]") {
  CHECK(Pool::rounded(0) == 512);
  CHECK(Pool::rounded(1) == 512);
  CHECK(Pool::rounded(513) == 1024);
  CHECK(Pool::rounded(2 * kMiB - 1) == 2 * kMiB);
  CHECK(Pool::rounded(2 * kMiB) == 2 * kMiB);
  CHECK(Pool::rounded(2 * kMiB + 1) == 4 * kMiB);
}

TEST_CASE("memory that was given back is given out again", "[gpu][pool]") {
  FakeMemory memory;
  {
    Pool pool(memory.raw());
    void* const first = pool.allocate(1000);
    pool.deallocate(first);
    CHECK(pool.kept_bytes() == 1024);
    CHECK(pool.allocate(600) == first);  // rounded alike
    CHECK(memory.allocations == 1);
    void* const second = pool.allocate(1000);
    CHECK(second != first);
    CHECK(pool.used_bytes() == 2048);
    pool.deallocate(second);
    pool.deallocate(first);
    CHECK(pool.used_bytes() == 0);
    CHECK(pool.kept_bytes() == 2048);
  }
  CHECK(memory.used == 0);
}

TEST_CASE("a block much larger than what is asked for is left for others", "[gpu][pool]") {
  FakeMemory memory;
  Pool pool(memory.raw());
  void* const large = pool.allocate(32 * kMiB);
  pool.deallocate(large);
  void* const small = pool.allocate(4 * kMiB);
  CHECK(small != large);
  CHECK(pool.allocate(30 * kMiB) == large);  // an eighth more is not too much
  CHECK(pool.used_bytes() == 36 * kMiB);     // counted as what it is
}

TEST_CASE("what is kept is given up before memory is said to be out", "[gpu][pool]") {
  FakeMemory memory;
  Pool pool(memory.raw());
  pool.deallocate(pool.allocate(40 * kMiB));
  void* const whole = pool.allocate(60 * kMiB);  // with the 40 kept there would be no room
  CHECK(whole != nullptr);
  CHECK(memory.releases == 1);
  CHECK(pool.kept_bytes() == 0);
}

TEST_CASE("out of memory says what was asked for, is used and is free", "[gpu][pool]") {
  FakeMemory memory;
  Pool pool(memory.raw());
  pool.allocate(20 * kMiB);
  CHECK_THROWS_WITH(pool.allocate(100 * kMiB), Contains("100.0 MiB were asked for") && Contains("44.0 MiB are free") &&
                                                   Contains("this run has 20.0 MiB"));
  CHECK_THROWS_AS(pool.allocate(~std::size_t{0} - 5), DeviceError);  // which cannot be rounded up
  CHECK(pool.used_bytes() == 20 * kMiB);
  CHECK(pool.allocate(40 * kMiB) != nullptr);  // it goes on
}

}  // namespace
}  // namespace unisono::kernels::cuda
