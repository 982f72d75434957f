#include "unisono/data/dictionary.hpp"

#include <catch2/catch.hpp>

#include "support.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::message_of;
using unisono::test::TempDir;
using Names = std::vector<std::string>;

TEST_CASE("a dictionary comes back as it was written", "[dictionary]") {
  const TempDir folder;
  unisono::data::write_dictionary(folder / "words.h5",
                                  {{.table = "words", .names = {"the", "größte", "of"}, .counts = {5, 2, 1}}});
  const unisono::data::Dictionary words = unisono::data::read_dictionary(folder / "words.h5");
  REQUIRE(words.size() == 1);
  CHECK(words[0].table == "words");
  CHECK(words[0].names == Names{"the", "größte", "of"});
  CHECK(words[0].counts == std::vector<std::int64_t>{5, 2, 1});

  unisono::data::write_dictionary(folder / "ratings.h5",
                                  {{.table = "users", .names = {"u 1"}}, {.table = "items", .names = {"a", "b"}}});
  const unisono::data::Dictionary ratings = unisono::data::read_dictionary(folder / "ratings.h5");
  REQUIRE(unisono::data::find_table(ratings, "items") != nullptr);
  CHECK(unisono::data::find_table(ratings, "items")->names == Names{"a", "b"});
  CHECK(unisono::data::find_table(ratings, "users")->counts.empty());
  CHECK(unisono::data::find_table(ratings, "words") == nullptr);
}

TEST_CASE("what has no names has an empty dictionary", "[dictionary]") {
  const TempDir folder;
  unisono::data::write_dictionary(folder / "none.h5", {});
  CHECK(unisono::data::read_dictionary(folder / "none.h5").empty());
}

TEST_CASE("counts belong to the words", "[dictionary]") {
  const TempDir folder;
  unisono::data::write_dictionary(folder / "words.h5", {{.table = "words", .names = {"a", "b"}, .counts = {1}}});
  const auto said =
      unisono::test::message_of<unisono::DataError>([&] { unisono::data::read_dictionary(folder / "words.h5"); });
  CHECK_THAT(said, Contains("/dictionary/counts holds 1 value, but the dictionary has 2 words"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::read_dictionary(folder / "none.h5"); }),
             Contains("none.h5"));
}

TEST_CASE("letters of all alphabets are made small", "[dictionary]") {
  CHECK(unisono::data::lowercase({"Paris", "ÅNGSTRÖM", "ΑΘΗΝΑ", "x-1"}) == Names{"paris", "ångström", "αθηνα", "x-1"});
  CHECK(unisono::data::lowercase({"A\xFFZ"}) == Names{"A\xFFZ"});
}
