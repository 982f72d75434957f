#include "unisono/base/errors.hpp"

#include <catch2/catch.hpp>

namespace unisono {
namespace {

TEST_CASE("large numbers are grouped by threes", "[text]") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-123456) == "-123,456");
  CHECK(grouped(1234567890) == "1,234,567,890");
}

TEST_CASE("one thing is named in the singular, any other number in the plural", "[text]") {
  CHECK(count_of(1, "rank") == "1 rank");
  CHECK(count_of(0, "rank") == "0 ranks");
  CHECK(count_of(2814, "step") == "2,814 steps");
  CHECK(count_of(10, "class") == "10 classes");
  CHECK(count_of(3, "entry") == "3 entries");
  CHECK(count_of(3, "key") == "3 keys");
}

TEST_CASE("durations have three digits and a unit that suits them", "[text]") {
  CHECK(duration_text(12.34e-6) == "12.3 µs");
  CHECK(duration_text(0.004) == "4 ms");
  CHECK(duration_text(78.96) == "79 s");
}

TEST_CASE("names to choose from are joined by commas, the last one by or", "[text]") {
  CHECK(any_of({}) == "");
  CHECK(any_of({"a"}) == "a");
  CHECK(any_of({"a", "b"}) == "a or b");
  CHECK(any_of({"a", "b", "c"}) == "a, b or c");
  CHECK(all_of({"a"}) == "a");
  CHECK(all_of({"a", "b", "c"}) == "a, b and c");
}

}  // namespace
}  // namespace unisono
