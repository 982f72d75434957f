#include "unisono/records/csv_field.hpp"

#include <catch2/catch.hpp>

namespace unisono::records {
namespace {

TEST_CASE("names that a spreadsheet would compute begin with an apostrophe", "[csv_field]") {
  CHECK(csv_text("=cmd|' /C calc'!A0") == "'=cmd|' /C calc'!A0");
  CHECK(csv_text("=1,2") == "\"'=1,2\"");
  CHECK(csv_text("@sum") == "'@sum");
  CHECK(csv_text("+a") == "'+a");
  CHECK(csv_text("-a") == "'-a");
  CHECK(csv_text("\tx") == "'\tx");
  for (const char* plain : {"-0.5", "+1e-3", "-", "a=b", ""}) CHECK(csv_text(plain) == plain);
}

TEST_CASE("fields are quoted where they must be", "[csv_field]") {
  CHECK(csv_field("plain name's") == "plain name's");
  CHECK(csv_field("Good, the") == "\"Good, the\"");
  CHECK(csv_field("a \"b\"") == "\"a \"\"b\"\"\"");
  CHECK(csv_field("two\nlines") == "\"two\nlines\"");
  CHECK(csv_field("").empty());
}

}  // namespace
}  // namespace unisono::records
