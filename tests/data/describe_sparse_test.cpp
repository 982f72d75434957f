#include <catch2/catch.hpp>

#include "describe/figures.hpp"
#include "sets.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;

namespace {

/// The description of a set that `change` damaged.
template <typename Change>
std::string refusal_to_describe(const std::string& path, Change change) {
  {
    unisono::data::hdf5::File file(path, unisono::data::hdf5::File::Mode::update);
    change(file);
  }
  return unisono::test::message_of<unisono::DataError>([&] { unisono::data::describe_set(path); });
}

}  // namespace

TEST_CASE("figures are written as people read them", "[describe]") {
  CHECK(unisono::grouped(60000) == "60,000");
  CHECK(unisono::grouped(999) == "999");
  CHECK(unisono::grouped(1234567) == "1,234,567");
  CHECK(unisono::data::size_text(1536) == "1.5 KiB");
  CHECK(unisono::data::size_text(12) == "12 bytes");
  CHECK(unisono::data::share_text(1, 8) == "12.5 %");
}

TEST_CASE("a tally gives range, mean and deviation", "[describe]") {
  unisono::data::Tally tally;
  for (const double value : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) tally.add(value);
  CHECK(unisono::data::survey_text(tally.survey(8)) == "2 to 9, mean 5, deviation 2");
}

TEST_CASE("a description of sparse examples says how full they are, and how classes are balanced", "[describe]") {
  const TempDir folder;
  unisono::test::write_file(folder / "t", "1 1:0.5 4:2\n-1 2:1\n1\n-1 1:1\n-1 4:3\n");
  unisono::data::import_libsvm({folder / "t"}, {}, {.path = folder / "a.h5"});
  const std::string text = unisono::data::describe_set(folder / "a.h5");
  CHECK_THAT(text, Contains("sparse examples of 4 columns"));
  CHECK_THAT(text, Contains("train: 5 examples"));
  CHECK_THAT(text, Contains("5 values, 25 % of all entries of 4 columns"));
  CHECK_THAT(text, Contains("values per row 0 to 2, mean 1, deviation 0.6325"));
  CHECK_THAT(text, Contains("columns with values: 3"));
  CHECK_THAT(text, Contains("values 0.5 to 3, mean 1.5"));
  CHECK_THAT(text, Contains("0 -1") && Contains("60.0 %") && Contains("2 to 3 examples each"));
  CHECK_THAT(text, Contains("column:value\n  0:0.5, 3:2\n  1:1\n  \n"));

  unisono::data::import_libsvm({folder / "t"}, {.task = Task::regression}, {.path = folder / "b.h5"});
  CHECK_THAT(unisono::data::describe_set(folder / "b.h5"), Contains("targets   -1 to 1, mean -0.2"));
  unisono::test::write_file(folder / "t", "1 1:1\n0 2:1\n");
  unisono::data::import_libsvm({folder / "t"}, {}, {.path = folder / "c.h5"});
  CHECK_THAT(unisono::data::describe_set(folder / "c.h5"), Contains("all values are 1"));

  const std::uint64_t five = 5;
  const std::uint32_t column = 4;
  CHECK_THAT(
      refusal_to_describe(folder / "a.h5",
                          [&](unisono::data::hdf5::File& f) { f.write_rows("train/features/indices", 2, 1, &column); }),
      Contains("a.h5: /train/features/indices: holds the column 4, but there are only 4 columns"));
  CHECK_THAT(
      refusal_to_describe(folder / "c.h5",
                          [&](unisono::data::hdf5::File& f) { f.write_rows("train/features/indptr", 1, 1, &five); }),
      Contains("c.h5: /train/features/indptr: holds 5 after 0; the values must ascend and be at most 2"));
}

TEST_CASE("a description of ratings counts users, items and ratings", "[describe]") {
  const TempDir folder;
  unisono::test::write_file(folder / "r", "ann,heat,4,100\nann,up,4,200\nbob,heat,1,300\n");
  unisono::test::write_file(folder / "s", "carl,heat,2,400\n");
  unisono::data::import_ratings({folder / "r"}, {.test_file = folder / "s"}, {.path = folder / "a.h5"});
  const std::string text = unisono::data::describe_set(folder / "a.h5");
  CHECK_THAT(text, Contains("ratings of 2 items by 3 users"));
  CHECK_THAT(text, Contains("train: 3 ratings by 2 users of 2 items"));
  CHECK_THAT(text, Contains("1 to 4, mean 3,"));
  CHECK_THAT(text, Contains("4            2  66.7 %"));
  CHECK_THAT(text, Contains("times     100 to 300"));
  CHECK_THAT(text, Contains("most often rated: heat (2), up (1)"));
  CHECK_THAT(text, Contains("test: 1 ratings by 1 users of 1 items"));
  const std::uint32_t nobody = 3;
  CHECK_THAT(refusal_to_describe(folder / "a.h5",
                                 [&](unisono::data::hdf5::File& f) { f.write_rows("train/users", 0, 1, &nobody); }),
             Contains("a.h5: /train/users holds the number 3, but its dictionary has only 3 names"));
}

TEST_CASE("many different ratings are counted in ranges", "[describe]") {
  const TempDir folder;
  std::string lines;
  for (int i = 0; i <= 100; ++i) lines += "u i " + std::to_string(i) + "\n";
  unisono::test::write_file(folder / "r", lines);
  unisono::data::import_ratings({folder / "r"}, {}, {.path = folder / "a.h5"});
  CHECK_THAT(unisono::data::describe_set(folder / "a.h5"), Contains("90 to 100                11  10.9 %"));
}

TEST_CASE("descriptions of text and of co-occurrences show words", "[describe]") {
  const TempDir folder;
  unisono::test::write_file(folder / "t", "a b a\nb a\na\n");
  unisono::data::import_text({folder / "t"}, {.minimum_count = 1}, {.path = folder / "a.h5"});
  const std::string text = unisono::data::describe_set(folder / "a.h5");
  CHECK_THAT(text, Contains("text of 2 distinct words"));
  CHECK_THAT(text, Contains("train: 6 words in 3 sentences"));
  CHECK_THAT(text, Contains("words per sentence: 1 to 3, mean 2"));
  CHECK_THAT(text, Contains("0 a") && Contains("66.7 %"));
  unisono::data::count_cooccurrences(folder / "a.h5", {}, {.path = folder / "c.h5"});
  const std::string counts = unisono::data::describe_set(folder / "c.h5");
  CHECK_THAT(counts, Contains("co-occurrences of 2 words"));
  CHECK_THAT(counts, Contains("train: 3 entries, 75 % of all pairs"));
  CHECK_THAT(counts, Contains("counts    1 to 3, mean 2.333"));
  CHECK_THAT(counts, Contains("a – b: 3") && Contains("a – a: 1"));
}
