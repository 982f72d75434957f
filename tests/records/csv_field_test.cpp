#include "unisono/records/csv_field.hpp"

#include <catch2/catch.hpp>

namespace unisono::records {
namespace {

TEST_CASE("fields are quoted where they must be", "[csv_field]") {
  CHECK(csv_field("plain name's") == "plain name's");
  CHECK(csv_field("Good, the") == "\"Good, the\"");
  CHECK(csv_field("a \"b\"") == "\"a \"\"b\"\"\"");
  CHECK(csv_field("two\nlines") == "\"two\nlines\"");
  CHECK(csv_field("").empty());
}

}  // namespace
}  // namespace unisono::records
