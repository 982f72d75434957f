#include "unisono/tensor/allocator.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <far_allocator.hpp>
#include <limits>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

/// Counts what it gave and got back.
class CountingAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    last_bytes = bytes;
    return *held.insert(plain_allocator().allocate(bytes)).first;
  }
  void deallocate(void* pointer) noexcept override {
    foreign += held.erase(pointer) == 0 ? 1 : 0;
    plain_allocator().deallocate(pointer);
  }

  std::set<void*> held;
  std::size_t last_bytes = 0;
  int foreign = 0;  ///< pointers that it got back without having given them
};

bool is_zero(View values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return x == 0; });
}

TEST_CASE("whole pages have nothing beside them", "[buffer]") {
  constexpr std::uintptr_t kPage = 4096;
  std::set<std::uintptr_t> pages;
  std::vector<Buffer> buffers;
  for (const Index size : {1, 1000, 1024, 1025, 1, 3 << 20}) {
    const Buffer& buffer = buffers.emplace_back(size, page_allocator());
    CHECK(is_zero(buffer.view()));
    const auto first = reinterpret_cast<std::uintptr_t>(buffer.data());
    CHECK(first % kPage == 0);
    for (std::uintptr_t at = first; at < first + static_cast<std::uintptr_t>(size) * sizeof(float); at += kPage) {
      CHECK(pages.insert(at).second);
    }
  }
}

TEST_CASE("a buffer is zero and begins at a cache line", "[buffer]") {
  for (const Index size : {1, 3, 16, 17, 1000}) {
    const Buffer buffer(size);
    REQUIRE(buffer.size() == size);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignmentBytes == 0);
    CHECK(is_zero(buffer.view()));
  }
}

TEST_CASE("memory that was used before is zeroed again", "[buffer]") {
  for (int round = 0; round < 2; ++round) {
    Buffer buffer(1000);
    CHECK(is_zero(buffer.view()));
    std::fill(buffer.view().begin(), buffer.view().end(), 1.0F);
  }
}

TEST_CASE("an empty buffer has an empty view", "[buffer]") {
  CHECK(Buffer().size() == 0);
  CHECK(Buffer().view().empty());
  CHECK(Buffer(0).view().empty());
}

TEST_CASE("a buffer gives its memory back, once, to the allocator that it came from", "[buffer]") {
  CountingAllocator allocator;
  {
    const Buffer buffer(10, allocator);
    CHECK(allocator.last_bytes == 40);
    CHECK(allocator.held.size() == 1);
  }
  CHECK(allocator.held.empty());
  CHECK(allocator.foreign == 0);
}

TEST_CASE("a moved buffer keeps its values, and what it replaces is given back", "[buffer]") {
  CountingAllocator first, second;
  {
    Buffer a(2, first);
    a.view()[1] = 7;
    const float* where = a.data();

    Buffer b = std::move(a);
    CHECK(b.data() == where);
    CHECK(b.view()[1] == 7);

    Buffer c(3, second);
    c = std::move(b);
    CHECK(c.data() == where);
    CHECK(c.size() == 2);
  }
  CHECK(first.held.empty());
  CHECK(second.held.empty());
  CHECK(first.foreign + second.foreign == 0);
  CHECK_FALSE(std::is_copy_constructible_v<Buffer>);
}

TEST_CASE("a buffer knows where it came from", "[buffer]") {
  CountingAllocator allocator;
  const Buffer here(1), there(1, allocator);
  CHECK(&here.allocator() == &plain_allocator());
  CHECK(&there.allocator() == &allocator);
}

TEST_CASE("plain memory is copied float by float, and is its own plain values", "[buffer]") {
  Buffer from(5), to(5);
  std::ranges::fill(from.view(), 3.0F);
  plain_allocator().copy(from.view().first(2), to.view().subspan(1, 2));
  CHECK(std::ranges::equal(to.view(), std::array{0.0F, 3.0F, 3.0F, 0.0F, 0.0F}));

  PlainValues values(plain_allocator(), to.view());
  CHECK(values.view().data() == to.data());
  values.put_back();
  CHECK(to.view()[1] == 3);
}

TEST_CASE("values of other memory are a copy, until they are put back", "[buffer]") {
  FarAllocator far;
  Buffer vector(3, far);
  std::ranges::fill(vector.view(), -7.0F);  // as it lies there
  PlainValues values(far, vector.view());
  CHECK(values.view().data() != vector.data());
  CHECK(std::ranges::equal(values.view(), std::array{7.0F, 7.0F, 7.0F}));
  values.view()[1] = 8;
  CHECK(vector.view()[1] == -7);
  values.put_back();
  CHECK(vector.view()[1] == -8);
}

TEST_CASE("two floats are a double", "[buffer]") {
  Buffer floats(16);
  const std::span<double> doubles = as_doubles(floats.view().first(6));
  REQUIRE(doubles.size() == 3);
  doubles[2] = -0.1;
  CHECK(as_doubles(floats.view())[2] == -0.1);
}

TEST_CASE("memory that cannot be had is a device error that says how much was asked for", "[buffer]") {
  const std::size_t bytes = std::size_t{1} << 60;  // more than any address space here
  CHECK_THROWS_WITH(plain_allocator().allocate(bytes), Catch::Matchers::Contains("1099511627776.0 MiB were asked for"));
  CHECK_THROWS_AS(plain_allocator().allocate(bytes), DeviceError);
  CHECK_THROWS_AS(plain_allocator().allocate(std::numeric_limits<std::size_t>::max()), DeviceError);
}

}  // namespace
}  // namespace unisono
