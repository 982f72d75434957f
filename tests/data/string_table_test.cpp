#include "import/string_table.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

using unisono::data::StringTable;

TEST_CASE("strings are numbered as they come first", "[text]") {
  StringTable table;
  CHECK(table.number_of("to") == 0);
  CHECK(table.number_of("be") == 1);
  CHECK(table.number_of("to") == 0);
  CHECK(table.number_of("") == 2);
  CHECK(table.number_of("t") == 3);
  CHECK(table[1] == "be");
  CHECK(table.strings() == std::vector<std::string>{"to", "be", "", "t"});
}

TEST_CASE("many strings keep their numbers while the table grows", "[text]") {
  StringTable table;
  for (std::uint32_t i = 0; i < 50000; ++i) CHECK(table.number_of(fmt::format("w{}", i)) == i);
  for (std::uint32_t i = 0; i < 50000; i += 7) {
    CHECK(table.number_of(fmt::format("w{}", i)) == i);
    CHECK(table[i] == fmt::format("w{}", i));
  }
  CHECK(table.size() == 50000);
}
