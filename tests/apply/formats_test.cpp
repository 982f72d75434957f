#include "vectors/formats.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::ScratchFolder;
using Names = std::vector<std::string>;

/// What a format makes of rows of two numbers: i and 0.5.
std::string written(void (*format)(const NamedVectors&, NewFile&), const Names& names) {
  const ScratchFolder folder;
  const NamedVectors rows{.names = names, .width = 2, .read = [](Index row, MutableView vector) {
                            vector[0] = static_cast<float>(row);
                            vector[1] = 0.5F;
                          }};
  NewFile file(folder.path("out"), Replace::nothing);
  format(rows, file);
  file.finish();
  return testing::bytes_of(folder.path("out"));
}

std::string float_bytes(float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

TEST_CASE("word2vec's text is a line a word", "[formats]") {
  CHECK(written(write_word2vec_text, {"the", "größte"}) == "2 2\nthe 0 0.5\ngrößte 1 0.5\n");
}

TEST_CASE("word2vec's binary has floats behind each word", "[formats]") {
  const std::string half = float_bytes(0.5F);
  CHECK(written(write_word2vec_binary, {"a", "bc"}) ==
        "2 2\na " + float_bytes(0) + half + "\nbc " + float_bytes(1) + half + "\n");
}

TEST_CASE("word2vec's formats refuse names with blanks", "[formats]") {
  for (const auto format : {write_word2vec_text, write_word2vec_binary}) {
    CHECK_THROWS_AS(written(format, {"a", "Toy Story"}), DataError);
    CHECK_THROWS_WITH(
        written(format, {"a", "Toy Story"}),
        Contains("the name 'Toy Story' (number 1) is empty or contains a space") && Contains("npy or csv"));
    CHECK_THROWS_WITH(written(format, {""}), Contains("number 0"));
  }
}

TEST_CASE("npy has a header of 64 bytes, then the numbers", "[formats]") {
  const std::string bytes = written(write_npy, {"Toy Story", "b", "c"});
  REQUIRE(bytes.size() == 128 + 3 * 2 * 4);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK(bytes.substr(8, 2) == std::string("\x76\x00", 2));  // 118 bytes follow
  CHECK_THAT(bytes, Contains("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"));
  CHECK(bytes[127] == '\n');
  CHECK(bytes.substr(128 + 8, 8) == float_bytes(1) + float_bytes(0.5F));
}

TEST_CASE("csv quotes what must be quoted", "[formats]") {
  CHECK(written(write_csv, {"Good, the", "b"}) == "name,x0,x1\n\"Good, the\",0,0.5\nb,1,0.5\n");
}

TEST_CASE("a file of names has a line each", "[formats]") {
  const ScratchFolder folder;
  NewFile file(folder.path("names"), Replace::nothing);
  write_names({"Toy Story", "b"}, file);
  file.finish();
  CHECK(testing::bytes_of(folder.path("names")) == "Toy Story\nb\n");
  NewFile other(folder.path("other"), Replace::nothing);
  CHECK_THROWS_WITH(write_names({"a\nb"}, other), Contains("has several lines"));
}

}  // namespace
}  // namespace unisono::apply
