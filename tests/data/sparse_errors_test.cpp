// Every way in which a sparse set can be wrong is a DataError that names the file, the dataset and the place.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "sparse/schema.hpp"
#include "sparse_sets.hpp"

using namespace unisono::data;
using namespace unisono::test;
using Catch::Contains;
using unisono::data::hdf5::File;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What opening a set says that `make` wrote.
std::string sparse_message(const std::function<void(File&)>& make, double validation_fraction = 0) {
  const unisono::test::TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    make(file);
  }
  const bool shuffle = GENERATE(true, false);
  std::string text_message = unisono::test::message_of<unisono::DataError>([&] {
    unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5", shuffle, validation_fraction), 1);
  });
  if (!text_message.empty()) CHECK_THAT(text_message, Contains(folder / "a.h5"));
  return text_message;
}

struct WrittenRows {
  std::vector<std::int64_t> indptr = {0, 2, 2, 5}, indices = {0, 3, 1, 2, 4};
  std::vector<float> data = {1, 2, 3, 4, 5};
  std::vector<std::int64_t> labels = {0, 1, 1};
  std::int64_t columns = 5;
  std::string group = "train";
};

void write_rows(File& file, const WrittenRows& rows) {
  file.write(rows.group + "/features/indptr", rows.indptr);
  file.write(rows.group + "/features/indices", rows.indices);
  if (!rows.data.empty()) file.write(rows.group + "/features/data", rows.data);
  if (rows.columns != 0) file.write_attribute(rows.group + "/features", "columns", rows.columns);
  if (!rows.labels.empty()) file.write(rows.group + "/labels", rows.labels);
}

std::string sparse_message(const WrittenRows& rows) {
  return sparse_message([&](File& file) { write_rows(file, rows); });
}

struct WrittenEntries {
  std::vector<std::int64_t> rows = {0, 2, 1}, columns = {1, 0, 1};
  std::vector<float> values = {1, 2, 3};
  std::vector<std::string> row_names = {"a", "b", "c"}, column_names = {"x", "y"};
};

std::string ratings(const WrittenEntries& entries) {
  return sparse_message([&](File& file) {
    file.write("train/users", entries.rows);
    file.write("train/items", entries.columns);
    file.write("train/ratings", entries.values);
    if (!entries.row_names.empty()) file.write_strings("dictionary/users", entries.row_names);
    if (!entries.column_names.empty()) file.write_strings("dictionary/items", entries.column_names);
  });
}

std::string cooccurrences(const WrittenEntries& entries) {
  return sparse_message([&](File& file) {
    file.write("train/rows", entries.rows);
    file.write("train/columns", entries.columns);
    file.write("train/counts", entries.values);
    if (!entries.row_names.empty()) file.write_strings("dictionary/words", entries.row_names);
  });
}

struct WrittenWords {
  std::vector<std::int64_t> words = {0, 1, 2, 0, 1}, sentences = {0, 3, 5};
  std::vector<std::string> names = {"a", "b", "c"};
  std::vector<std::int64_t> counts = {2, 2, 1};
};

std::string text_message(const WrittenWords& words) {
  return sparse_message([&](File& file) {
    file.write("train/words", words.words);
    file.write("train/sentences", words.sentences);
    if (!words.names.empty()) file.write_strings("dictionary/words", words.names);
    if (!words.counts.empty()) file.write("dictionary/counts", words.counts);
  });
}

}  // namespace

TEST_CASE("sound sparse sets are no error", "[sparse]") {
  CHECK(sparse_message(WrittenRows{}).empty());
  CHECK(sparse_message(WrittenRows{.data = {}}).empty());
  CHECK(sparse_message(WrittenRows{.labels = {}}).empty());
  CHECK(ratings({}).empty());
  CHECK(ratings({.row_names = {}, .column_names = {}}).empty());
  CHECK(cooccurrences({}).empty());
  CHECK(text_message({}).empty());
  CHECK(text_message({.counts = {}}).empty());
}

TEST_CASE("offsets of rows that are none", "[sparse]") {
  CHECK_THAT(sparse_message(WrittenRows{.indptr = {0, 3, 2, 5}}),
             Contains("/train/features/indptr: value 2 is 2, less than the one before it"));
  CHECK_THAT(sparse_message(WrittenRows{.indptr = {1, 2, 2, 5}}),
             Contains("/train/features/indptr: goes from 1 to 5, but must go from 0 to 5"));
  CHECK_THAT(sparse_message(WrittenRows{.indptr = {0, 2, 2, 4}}),
             Contains("goes from 0 to 4, but must go from 0 to 5"));
  CHECK_THAT(sparse_message(WrittenRows{.indptr = {0, 2, 2, 6}}), Contains("value 3 is 6, but must lie in [0, 6)"));
  CHECK_THAT(sparse_message(WrittenRows{.indptr = {0, -2, 2, 5}}), Contains("value 1 is -2, but must lie in [0, 6)"));
  CHECK_THAT(sparse_message(WrittenRows{.indptr = {0}}), Contains("/train/features/indptr has no rows"));
}

TEST_CASE("columns of rows that are none", "[sparse]") {
  CHECK_THAT(sparse_message(WrittenRows{.indices = {0, 3, 1, 2, 5}}),
             Contains("/train/features/indices: value 4 is 5, but must lie in [0, 5)"));
  CHECK_THAT(sparse_message(WrittenRows{.indices = {0, -3, 1, 2, 4}}), Contains("value 1 is -3"));
  CHECK_THAT(sparse_message(WrittenRows{.indices = {0, 3, 1, 1, 4}}),
             Contains("/train/features/indices: row 2 has column 1 after column 1; the columns of a row must ascend"));
  CHECK_THAT(sparse_message(WrittenRows{.indices = {3, 0, 1, 2, 4}}), Contains("row 0 has column 0 after column 3"));
  CHECK_THAT(sparse_message(WrittenRows{.columns = 0}), Contains("/train/features has no attribute 'columns'"));
  CHECK_THAT(sparse_message(WrittenRows{.columns = -4}),
             Contains("has -4 columns; the number must be 1 to 4294967295"));
  CHECK_THAT(sparse_message(WrittenRows{.columns = std::int64_t{1} << 40}),
             Contains("columns; the number must be 1 to 4294967295"));
}

TEST_CASE("values and answers of rows that are none", "[sparse]") {
  CHECK_THAT(sparse_message(WrittenRows{.data = {1, 2, kNan, 4, 5}}),
             Contains("/train/features/data: value 2 is not finite"));
  CHECK_THAT(sparse_message(WrittenRows{.data = {1, 2, 3, 4, kInfinity}}),
             Contains("/train/features/data: value 4 is not finite"));
  CHECK_THAT(sparse_message(WrittenRows{.data = {1, 2, 3}}),
             Contains("/train/features/data holds 3 values but /train/features/indices requires 5"));
  CHECK_THAT(sparse_message(WrittenRows{.labels = {0, 1}}),
             Contains("/train/labels holds 2 values but /train/features/indptr requires 3"));
  CHECK_THAT(sparse_message(WrittenRows{.labels = {0, -1, 1}}), Contains("/train/labels: example 1 has the label -1"));
  CHECK_THAT(sparse_message([](File& file) {
               write_rows(file, {.labels = {}});
               file.write<float>("train/targets", {0, 1, kNan});
             }),
             Contains("/train/targets: value 2 is not finite"));
  CHECK_THAT(sparse_message([](File& file) {
               write_rows(file, {});
               file.write<float>("train/targets", {0, 1, 2});
             }),
             Contains("/train has labels and targets; remove one of them"));
}

TEST_CASE("groups that do not belong together", "[sparse]") {
  CHECK_THAT(sparse_message([](File& file) {
               write_rows(file, {});
               write_rows(file, {.columns = 6, .group = "test"});
             }),
             Contains("/test/features has 6 columns, but another group has 5"));
  CHECK_THAT(sparse_message([](File& file) {
               write_rows(file, {});
               write_rows(file, {.labels = {0, 1, 2}, .group = "test"});
             }),
             Contains("/test/labels") && Contains("2"));
  CHECK_THAT(sparse_message([](File& file) {
               write_rows(file, {});
               write_rows(file, {.labels = {}, .group = "test"});
             }),
             Contains("/test does not have the same kind of labels or targets as /train"));
  CHECK_THAT(sparse_message([](File& file) {
               write_rows(file, {});
               file.write_attribute("", "classes", std::int64_t{1});
             }),
             Contains("/train/labels"));
}

TEST_CASE("datasets that are missing, or of another kind", "[sparse]") {
  CHECK_THAT(sparse_message([](File& file) { file.create_group("train/features"); }),
             Contains("/train/features/indptr is missing; see docs/data-format.md"));
  CHECK_THAT(sparse_message([](File& file) {
               file.write<std::int64_t>("train/features/indptr", {0, 1});
             }),
             Contains("/train/features/indices is missing"));
  CHECK_THAT(sparse_message([](File& file) {
               file.write<float>("train/features/indptr", {0, 1});
               file.write<std::int64_t>("train/features/indices", {0});
             }),
             Contains("/train/features/indptr must hold integers"));
  CHECK_THAT(sparse_message([](File& file) {
               file.write<std::int64_t>("train/features/indptr", {0, 1});
               file.write<float>("train/features/indices", {0});
             }),
             Contains("/train/features/indices must hold integers"));
  CHECK_THAT(sparse_message([](File& file) {
               file.write_strings("train/features/indptr", {"0", "1"});
             }),
             Contains("/train/features/indptr holds") && Contains("not numbers"));
  CHECK_THAT(sparse_message([](File& file) {
               file.create<std::int64_t>("train/features/indptr", {2, 3});
             }),
             Contains("/train/features/indptr has 2 axes, but must have one"));
  CHECK_THAT(sparse_message([](File& file) { file.create_group("train/features/indptr"); }),
             Contains("/train/features/indptr is a group, but must be a dataset"));
  CHECK_THAT(sparse_message([](File& file) { file.create<std::int64_t>("train/features/indptr", {3}, 2); }),
             Contains("/train/features/indptr was not written completely"));
  CHECK_THAT(sparse_message([](File& file) { file.write<float>("train/ratings", {1}); }),
             Contains("/train/users is missing"));
  CHECK_THAT(sparse_message([](File& file) { file.write<std::int32_t>("train/words", {1}); }),
             Contains("/dictionary/words is missing or empty"));
  CHECK_THAT(sparse_message([](File& file) {
               file.write_strings("dictionary/words", {"a"});
               file.write<std::int32_t>("train/words", {0});
             }),
             Contains("/train/sentences is missing"));
  CHECK_THAT(sparse_message([](File& file) {
               file.write_strings("dictionary/words", {"a"});
               file.write<float>("train/counts", {1});
             }),
             Contains("/train/rows is missing"));
}

TEST_CASE("ratings that are none", "[sparse]") {
  CHECK_THAT(ratings({.rows = {0, 3, 1}}), Contains("/train/users: value 1 is 3, but must lie in [0, 3)"));
  CHECK_THAT(ratings({.columns = {0, 1, 2}}), Contains("/train/items: value 2 is 2, but must lie in [0, 2)"));
  CHECK_THAT(ratings({.values = {1, kNan, 3}}), Contains("/train/ratings: value 1 is not finite"));
  CHECK_THAT(ratings({.columns = {0, 1}}), Contains("/train/items holds 2 values but /train/ratings requires 3"));
  CHECK_THAT(ratings({.rows = {}, .columns = {}, .values = {}}), Contains("/train is empty"));
  CHECK_THAT(ratings({.rows = {0, -1, 1}, .row_names = {}}), Contains("/train/users: value 1 is -1"));
  CHECK_THAT(ratings({.rows = {0, std::int64_t{1} << 32, 1}, .row_names = {}}), Contains("/train/users: value 1 is"));
}

TEST_CASE("co-occurrences that are none", "[sparse]") {
  CHECK_THAT(cooccurrences({.rows = {0, 3, 1}}), Contains("/train/rows: value 1 is 3, but must lie in [0, 3)"));
  CHECK_THAT(cooccurrences({.columns = {0, 3, 1}}), Contains("/train/columns: value 1 is 3"));
  CHECK_THAT(cooccurrences({.values = {1, 0, 3}}), Contains("/train/counts: value 1 is 0; counts are positive"));
  CHECK_THAT(cooccurrences({.values = {1, 2, -3}}), Contains("/train/counts: value 2 is -3"));
  CHECK_THAT(cooccurrences({.values = {1, 2, kInfinity}}), Contains("/train/counts: value 2 is not finite"));
  CHECK_THAT(cooccurrences({.row_names = {}}), Contains("/dictionary/words is missing or empty"));
}

TEST_CASE("texts that are none", "[sparse]") {
  CHECK_THAT(text_message({.words = {0, 1, 3, 0, 1}}), Contains("/train/words: value 2 is 3, but must lie in [0, 3)"));
  CHECK_THAT(text_message({.words = {0, 1, -3, 0, 1}}), Contains("/train/words: value 2 is -3"));
  CHECK_THAT(text_message({.sentences = {0, 4, 3, 5}}),
             Contains("/train/sentences: value 2 is 3, less than the one before it"));
  CHECK_THAT(text_message({.sentences = {0, 3}}),
             Contains("/train/sentences: goes from 0 to 3, but must go from 0 to 5"));
  CHECK_THAT(text_message({.sentences = {0}}), Contains("/train has no sentences"));
  CHECK_THAT(text_message({.words = {}, .sentences = {0, 0}}), Contains("/train has no sentences"));
  CHECK_THAT(text_message({.names = {}}), Contains("/dictionary/words is missing or empty"));
  CHECK_THAT(text_message({.counts = {1, 2}}),
             Contains("/dictionary/counts must hold 3 whole numbers, one for each word"));
  CHECK_THAT(text_message({.counts = {1, -2, 3}}), Contains("/dictionary/counts: value 1 is -2"));
}

TEST_CASE("the place of what is wrong is named behind the first piece, too", "[sparse]") {
  const unisono::test::TempDir folder;
  std::vector<std::int64_t> numbers(600'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<float> floats(numbers.begin(), numbers.end());
  floats[500'000] = kNan;
  File file(folder / "a.h5", File::Mode::create);
  file.write("numbers", numbers);
  file.write("floats", floats);
  const auto nothing = [](std::int64_t, auto) {};
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               unisono::data::visit_numbers(file, "numbers", {10, 600'000}, 599'999, nothing);
             }),
             Contains("value 599999 is 599999, but must lie in [0, 599999)"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               unisono::data::visit_floats(file, "floats", {7, 600'000}, nothing);
             }),
             Contains("value 500000 is not finite"));
  std::int64_t next = 17;
  unisono::data::visit_numbers(file, "numbers", {17, 600'000}, 600'000, [&](std::int64_t first, auto values) {
    CHECK(first == next);
    for (const std::int64_t value : values) next += value == next ? 1 : 0;
  });
  CHECK(next == 600'000);
  numbers[400'000] = 1;
  file.write("other", numbers);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>(
                 [&] { unisono::data::read_offsets(file, "other", 599'999, 599'999); }),
             Contains("value 400000 is 1, less than the one before it"));
}

TEST_CASE("kinds of sets are told by their datasets", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    for (const std::string group : {"train", "validation", "test"}) {
      const unisono::test::TempDir folder;
      File file(folder / "a.h5", File::Mode::create);
      CHECK(unisono::data::kind_of(file) == unisono::data::SetKind::table);
      kind.write(file, group, 5);
      CHECK(unisono::data::kind_of(file) == kind.kind);
    }
  }
}
