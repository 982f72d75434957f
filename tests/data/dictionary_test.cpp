#include "unisono/data/dictionary.hpp"

#include <catch2/catch.hpp>

#include "support.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

using namespace unisono;
using Catch::Contains;
using test::message_of;
using test::TempDir;
using Names = std::vector<std::string>;

TEST_CASE("a dictionary comes back as it was written", "[dictionary]") {
  const TempDir folder;
  write_dictionary(folder / "words.h5", {{.table = "words", .names = {"the", "größte", "of"}, .counts = {5, 2, 1}}});
  const Dictionary words = read_dictionary(folder / "words.h5");
  REQUIRE(words.size() == 1);
  CHECK(words[0].table == "words");
  CHECK(words[0].names == Names{"the", "größte", "of"});
  CHECK(words[0].counts == std::vector<std::int64_t>{5, 2, 1});

  write_dictionary(folder / "ratings.h5",
                   {{.table = "users", .names = {"u 1"}}, {.table = "items", .names = {"a", "b"}}});
  const Dictionary ratings = read_dictionary(folder / "ratings.h5");
  REQUIRE(find_table(ratings, "items") != nullptr);
  CHECK(find_table(ratings, "items")->names == Names{"a", "b"});
  CHECK(find_table(ratings, "users")->counts.empty());
  CHECK(find_table(ratings, "words") == nullptr);
}

TEST_CASE("what has no names has an empty dictionary", "[dictionary]") {
  const TempDir folder;
  write_dictionary(folder / "none.h5", {});
  CHECK(read_dictionary(folder / "none.h5").empty());
}

TEST_CASE("counts belong to the words", "[dictionary]") {
  const TempDir folder;
  write_dictionary(folder / "words.h5", {{.table = "words", .names = {"a", "b"}, .counts = {1}}});
  const auto said = message_of<DataError>([&] { read_dictionary(folder / "words.h5"); });
  CHECK_THAT(said, Contains("/dictionary/counts holds 1 value, but the dictionary has 2 words"));
  CHECK_THAT(message_of<DataError>([&] { read_dictionary(folder / "none.h5"); }), Contains("none.h5"));
}

TEST_CASE("letters of all alphabets are made small", "[dictionary]") {
  CHECK(lowercase({"Paris", "ÅNGSTRÖM", "ΑΘΗΝΑ", "x-1"}) == Names{"paris", "ångström", "αθηνα", "x-1"});
  CHECK(lowercase({"A\xFFZ"}) == Names{"A\xFFZ"});
}
