#include "unisono/base/denormals.hpp"

#include <catch2/catch.hpp>

#include <limits>
#include <vector>

#include "unisono/base/threads.hpp"

namespace unisono {
namespace {

/// Whether this thread writes 0 in place of a denormal product, and reads 0 in place of a denormal factor.
bool flushes() {
  const volatile float smallest = std::numeric_limits<float>::min(),
                       denormal = std::numeric_limits<float>::denorm_min();
  const volatile double large = 0x1p100;
  const volatile float written = smallest * 0.5F, read = denormal * static_cast<float>(large);
  const volatile double small = std::numeric_limits<double>::min(), half = small * 0.5;
  return written == 0 && read == 0 && half == 0;
}

TEST_CASE("denormals are flushed as long as an object says so", "[denormals]") {
  CHECK(!flushes());
  {
    const FlushDenormals flush;
    CHECK(flushes());
    {
      const FlushDenormals again;
      CHECK(flushes());
    }
    CHECK(flushes());
  }
  CHECK(!flushes());
}

TEST_CASE("all threads of the program flush denormals", "[denormals]") {
  bool alone = false;
  {
    Threads threads("a test");
    threads.start([&] { alone = flushes(); });
  }
  CHECK(alone);
  std::vector<char> parts(3);
  ThreadTeam team(3, "a test");
  team.run([&](int thread) { parts[static_cast<std::size_t>(thread)] = flushes() ? 1 : 0; });
  CHECK(parts == std::vector<char>{0, 1, 1});  // the first part is done by the thread that calls, as it is
}

}  // namespace
}  // namespace unisono
