#include "vectors/tables.hpp"

#include <catch2/catch.hpp>

namespace unisono::apply {
namespace {

using WordRows = std::vector<std::int32_t>;

TEST_CASE("words in lower case are found however they are spelled", "[vocabulary]") {
  const Vocabulary lower({.table = "words", .names = {"athen", "österreich"}});
  CHECK(lower.is_lower_case());
  CHECK(lower.find({"ATHEN", "Österreich", "rom"}) == WordRows{0, 1, -1});
  const Vocabulary mixed({.table = "words", .names = {"athen", "Athen"}});
  CHECK_FALSE(mixed.is_lower_case());
  CHECK(mixed.find({"Athen", "athen", "ATHEN"}) == WordRows{1, 0, -1});
}

TEST_CASE("the most frequent words come first, of equals the lower rows", "[vocabulary]") {
  const Vocabulary counted({.table = "words", .names = {"a", "b", "c", "d"}, .counts = {1, 5, 5, 9}});
  CHECK(counted.most_frequent(3) == WordRows{3, 1, 2});
  CHECK(counted.most_frequent(100) == WordRows{3, 1, 2, 0});
  const Vocabulary uncounted({.table = "words", .names = {"a", "b", "c"}});
  CHECK(uncounted.most_frequent(2) == WordRows{0, 1});
}

}  // namespace
}  // namespace unisono::apply
