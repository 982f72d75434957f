#include "vectors/word_scores.hpp"

#include <catch2/catch.hpp>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

using Catch::Matchers::Contains;
using testing::ScratchFolder;

TEST_CASE("questions come in sections", "[word_files]") {
  const ScratchFolder folder;
  const auto file = read_questions(folder.file("q.txt", ": one\r\na b c d\r\n\n: two words\ne\tf  g h\ni j k l"));
  CHECK(file.sections == std::vector<std::string>{"one", "two words"});
  REQUIRE(file.questions.size() == 3);
  CHECK(file.questions[0].words == std::array<std::string, 4>{"a", "b", "c", "d"});
  CHECK(file.questions[1].words == std::array<std::string, 4>{"e", "f", "g", "h"});
  CHECK(file.questions[1].section == 1);
  CHECK(file.questions[2].words[3] == "l");
  CHECK(read_questions(folder.file("q.txt", "a b c d\n")).sections == std::vector<std::string>{"without a section"});
}

TEST_CASE("what is wrong with questions is said with file and line", "[word_files]") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(read_questions(folder.path("none.txt")), DataError);
  CHECK_THROWS_WITH(read_questions(folder.path("none.txt")), Contains("none.txt: cannot be read: No such file"));
  CHECK_THROWS_WITH(read_questions(folder.path()), Contains("this is a folder"));
  CHECK_THROWS_WITH(read_questions(folder.file("q.txt", ": s\na b c d\na b c\n")), Contains("q.txt:3: has 3 words"));
  CHECK_THROWS_WITH(read_questions(folder.file("q.txt", ": only a section\n")), Contains("q.txt: holds no analogies"));
}

TEST_CASE("pairs have a score", "[word_files]") {
  const ScratchFolder folder;
  const auto pairs = read_pairs(folder.file("p.txt", "# people's scores\ntiger\tcat\t7.35\r\nold  new -1e1\n"));
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].first == "tiger");
  CHECK(pairs[0].second == "cat");
  CHECK(pairs[0].score == 7.35);
  CHECK(pairs[1].score == -10);
}

TEST_CASE("what is wrong with pairs is said with file and line", "[word_files]") {
  const ScratchFolder folder;
  CHECK_THROWS_WITH(read_pairs(folder.file("p.txt", "a b 1\na b c d\n")), Contains("p.txt:2: has 4 words"));
  CHECK_THROWS_WITH(read_pairs(folder.file("p.txt", "Word1 Word2 Score\n")),
                    Contains("p.txt:1: 'Score' is not a number"));
  CHECK_THROWS_WITH(read_pairs(folder.file("p.txt", "a b nan\n")), Contains("'nan' is not a number"));
  CHECK_THROWS_WITH(read_pairs(folder.file("p.txt", "a b 1x\n")), Contains("'1x' is not a number"));
  CHECK_THROWS_WITH(read_pairs(folder.file("p.txt", "\n")), Contains("p.txt: holds no lines of two words"));
}

}  // namespace
}  // namespace unisono::apply
