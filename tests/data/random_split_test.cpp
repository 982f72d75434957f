#include "import/set_writer.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "support.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;

TEST_CASE("rows are shared out exactly, and alike for the same seed", "[import]") {
  const unisono::data::RandomSplit split(10, {.validation = 0.2, .test = 0.3, .seed = 5}), again(10, {0.2, 0.3, 5}),
      other(10, {0.2, 0.3});
  std::array<int, 3> counts{};
  bool same = true, different = false;
  for (std::int64_t row = 0; row < 10; ++row) {
    ++counts[static_cast<std::size_t>(split.of(row))];
    same = same && split.of(row) == again.of(row);
    different = different || split.of(row) != other.of(row);
  }
  CHECK(counts == std::array<int, 3>{5, 2, 3});
  CHECK((split.size(unisono::data::Split::train) == 5 && split.size(unisono::data::Split::validation) == 2 &&
         split.size(unisono::data::Split::test) == 3));
  CHECK(same);
  CHECK(different);
  CHECK(unisono::data::share_of(7, 0.5) == 4);
}

TEST_CASE("shares that leave nothing are refused", "[import]") {
  const auto refusal = [](const unisono::data::Shares& shares, const std::string& file) {
    return unisono::test::message_of<unisono::ConfigError>([&] { unisono::data::check_shares(shares, "rows", file); });
  };
  CHECK_THAT(refusal({0.5, 0.5}, ""), Catch::Contains("leave no rows"));
  CHECK_THAT(refusal({1, 0}, ""), Catch::Contains("a fraction of 1 of the rows"));
  CHECK_THAT(refusal({0, 0.1}, "t"), Catch::Contains("cannot be combined"));
  CHECK(refusal({0.5, 0.4}, "").empty());
}

TEST_CASE("shares of no example are refused", "[import]") {
  CHECK_THAT(unisono::test::message_of<unisono::ConfigError>([] { unisono::data::share_of(30, 0.01); }),
             Catch::Contains("a fraction of 0.01 of 30 examples is none of them; it must be at least 0.033"));
  CHECK(unisono::data::share_of(30, 0) == 0);
  CHECK(unisono::data::share_of(30, 0.033) == 1);
}
