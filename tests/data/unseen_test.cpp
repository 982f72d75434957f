// What training examples say nothing about: classes, users and items; and groups that are held out whole.
#include "unisono/data/unseen.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "sparse_sets.hpp"

using namespace unisono;
using Catch::Contains;
using data::Reader;
using data::Split;
using unisono::test::TempDir;

namespace {

using Texts = std::vector<std::string>;

/// A table of rows with one feature, the number of the row, and these labels.
void write_labelled(data::hdf5::File& file, const std::string& group, const std::vector<std::int64_t>& labels) {
  std::vector<float> features(labels.size());
  std::iota(features.begin(), features.end(), 0.0F);
  file.create<float>(group + "/features", {labels.size(), 1});
  file.write_rows(group + "/features", 0, labels.size(), features.data());
  file.write(group + "/labels", labels);
}

/// 60 rows in 12 groups of 5 that lie scattered, and what belongs to a kind of set.
enum class Rows { table, sparse, ratings };

constexpr std::int64_t kRows = 60, kGroups = 12;

std::string write_grouped(const std::string& path, Rows rows, bool with_groups) {
  data::hdf5::File file(path, data::hdf5::File::Mode::create);
  std::vector<std::int64_t> labels, groups;
  std::vector<std::uint64_t> offsets = {0};
  std::vector<std::uint32_t> numbers, zeros(kRows);
  std::vector<float> values;
  for (std::int64_t i = 0; i < kRows; ++i) {
    labels.push_back(i % 2);
    groups.push_back(100 + i % kGroups);
    offsets.push_back(static_cast<std::uint64_t>(i + 1));
    numbers.push_back(static_cast<std::uint32_t>(i));
    values.push_back(static_cast<float>(i));
  }
  if (rows == Rows::table) write_labelled(file, "train", labels);
  if (rows == Rows::sparse) {
    file.write("train/features/indptr", offsets);
    file.write("train/features/indices", numbers);
    file.write_attribute("train/features", "columns", kRows);
    file.write("train/labels", labels);
  }
  if (rows == Rows::ratings) {
    file.write("train/users", numbers);
    file.write("train/items", zeros);
    file.write("train/ratings", values);
  }
  if (with_groups) file.write("train/groups", groups);
  return path;
}

/// The numbers of a split's rows, which their only feature, their only column or their user is.
std::set<std::int64_t> rows_of(data::Dataset& set, Split split) {
  std::set<std::int64_t> rows;
  const auto source = set.evaluate(split, 0, 1, 7);
  while (const auto batch = source->next()) {
    if (batch->set == nullptr) {
      for (const float feature : batch->features) rows.insert(static_cast<std::int64_t>(feature));
      continue;
    }
    for (const data::ExampleRange& range : batch->ranges) {
      for (std::int64_t i = range.first; i < range.last; ++i) {
        if (const auto* const sparse = std::get_if<data::LabelledRows>(batch->set)) {
          rows.insert(sparse->rows.columns[sparse->rows.offsets[static_cast<std::size_t>(i)]]);
        } else {
          rows.insert(std::get<data::SparseEntries>(*batch->set)[static_cast<std::size_t>(i)].row);
        }
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("groups are held out whole, in all kinds of sets", "[unseen]") {
  const TempDir folder;
  const Rows rows = GENERATE(Rows::table, Rows::sparse, Rows::ratings);
  data::DataSettings settings;
  settings.path = write_grouped(folder / "g.h5", rows, true);
  settings.validation_fraction = 0.25;
  settings.reader = rows == Rows::table ? GENERATE(Reader::resident, Reader::streaming) : Reader::automatic;
  const auto set = data::open_dataset(settings, 1);
  CHECK(set->info().groups == kGroups);
  CHECK(set->info().held_out_groups == 3);  // of 5 rows each: a quarter of 60
  CHECK(set->info().validation == 15);
  CHECK(set->info().train == 45);
  const auto train = rows_of(*set, Split::train), validation = rows_of(*set, Split::validation);
  CHECK(train.size() == 45);
  CHECK(validation.size() == 15);
  std::set<std::int64_t> groups;
  for (const std::int64_t row : validation) groups.insert(row % kGroups);
  CHECK(groups.size() == 3);
  for (const std::int64_t row : train) CHECK_FALSE(groups.contains(row % kGroups));
  CHECK(data::inspect_dataset(settings).validation == 15);

  auto other = settings;
  other.split_seed = 2;
  CHECK(rows_of(*data::open_dataset(other, 1), Split::validation) != validation);
}

TEST_CASE("rows are held out as before where there are no groups, or they are not asked for", "[unseen]") {
  const TempDir folder;
  const Rows rows = GENERATE(Rows::table, Rows::sparse, Rows::ratings);
  data::DataSettings settings;
  settings.validation_fraction = 0.25;
  settings.path = write_grouped(folder / "none.h5", rows, false);
  const auto without = data::open_dataset(settings, 1);
  CHECK(without->info().held_out_groups == 0);
  settings.path = write_grouped(folder / "g.h5", rows, true);
  settings.split_by = data::SplitBy::rows;
  const auto by_rows = data::open_dataset(settings, 1);
  CHECK(by_rows->info().held_out_groups == 0);
  const auto held_out = rows_of(*by_rows, Split::validation);
  CHECK(held_out == rows_of(*without, Split::validation));
  std::set<std::int64_t> groups;
  for (const std::int64_t row : held_out) groups.insert(row % kGroups);
  CHECK(groups.size() > 3);  // they are scattered
  settings.path = folder / "none.h5";
  settings.split_by = data::SplitBy::groups;
  CHECK_THAT(test::message_of<DataError>([&] { data::open_dataset(settings, 1); }),
             Contains("none.h5: has no dataset /train/groups"));
}

TEST_CASE("groups of other examples than those are an error", "[unseen]") {
  const TempDir folder;
  data::DataSettings settings;
  settings.path = write_grouped(folder / "g.h5", Rows::table, false);
  const std::vector<std::int64_t> few = {0, 1, 2, 3, 4, 5, 6};
  data::hdf5::File(settings.path, data::hdf5::File::Mode::update).write("train/groups", few);
  settings.validation_fraction = 0.25;
  CHECK_THAT(test::message_of<DataError>([&] { data::open_dataset(settings, 1); }),
             Contains("g.h5: /train/groups must have one number for each of the 60 training examples"));
  settings.split_by = data::SplitBy::rows;
  CHECK(data::open_dataset(settings, 1)->info().validation == 15);
}

TEST_CASE("groups that are too large to be held out are an error", "[unseen]") {
  const TempDir folder;
  data::DataSettings settings;
  settings.path = write_grouped(folder / "g.h5", Rows::table, true);
  settings.validation_fraction = 0.03;  // two rows; half of a group is more
  CHECK_THAT(test::message_of<DataError>([&] { data::open_dataset(settings, 1); }),
             Contains("g.h5: /train/groups has 12 groups, none of which can be held out whole for "
                      "data.validation_fraction = 0.03 of 60 examples") &&
                 Contains("set data.split_by = \"rows\""));
}

TEST_CASE("classes that no training example has are counted, however the set is read", "[unseen]") {
  const TempDir folder;
  data::DataSettings settings;
  settings.path = folder / "s.h5";
  settings.reader = GENERATE(Reader::resident, Reader::streaming);
  {
    data::hdf5::File file(settings.path, data::hdf5::File::Mode::create);
    write_labelled(file, "train", {0, 1, 0, 1});
    write_labelled(file, "validation", {1, 0});
    write_labelled(file, "test", {2, 0, 3, 3, 1});
    file.write_attribute("", "class_names", Texts{"no", "yes", "No.", "maybe"});
  }
  const auto set = data::open_dataset(settings, 1);
  CHECK(set->seen_classes() == std::vector<bool>{true, true, false, false});
  CHECK(set->unseen(Split::validation).classes.empty());
  CHECK(set->unseen(Split::validation).examples == 2);
  const data::Unseen unseen = set->unseen(Split::test);
  CHECK(unseen.examples == 5);
  CHECK(unseen.in_classes() == 3);
  CHECK(data::unseen_classes_text(unseen, set->class_names(), set->seen_classes(), "test", "example") ==
        "3 of 5 test examples are of classes that no training example has: 'No.' (1; is it 'no'?), 'maybe' (2)");

  const data::Fold fold{.train = {0, 2}, .validation = {1, 3}};  // of one class each
  if (settings.reader == Reader::resident) {
    const auto view = set->fold_view(fold);
    CHECK(view->unseen(Split::validation).in_classes() == 2);
    CHECK(view->seen_classes() == std::vector<bool>{true, false, false, false});
  }

  // A trained model says what it was trained on, whatever the set's own training group has.
  data::Preprocessing trained = set->preprocessing();
  trained.untrained_classes = {1};
  const auto applied = data::open_dataset(settings, 1, {}, &trained);
  CHECK(applied->unseen(Split::validation).in_classes() == 1);
  CHECK(data::preprocessing_from_json(data::to_json(trained), "").untrained_classes == trained.untrained_classes);
}

TEST_CASE("classes of sparse rows that no training row has are counted", "[unseen]") {
  const TempDir folder;
  data::DataSettings settings;
  settings.path = folder / "s.h5";
  {
    data::hdf5::File file(settings.path, data::hdf5::File::Mode::create);
    for (const std::string group : {"train", "test"}) {
      const std::vector<std::int64_t> labels =
          group == "train" ? std::vector<std::int64_t>{0, 2, 2} : std::vector<std::int64_t>{1, 1, 2};
      file.write(group + "/features/indptr", std::vector<std::uint64_t>{0, 1, 2, 3});
      file.write(group + "/features/indices", std::vector<std::uint32_t>{0, 1, 2});
      file.write_attribute(group + "/features", "columns", std::int64_t{3});
      file.write(group + "/labels", labels);
    }
  }
  const auto set = data::open_dataset(settings, 1);
  CHECK(set->seen_classes() == std::vector<bool>{true, false, true});
  REQUIRE(set->unseen(Split::test).classes.size() == 1);
  CHECK(set->unseen(Split::test).classes[0].label == 1);
  CHECK(set->unseen(Split::test).classes[0].examples == 2);
}

TEST_CASE("ratings of users and items without training ratings are counted", "[unseen]") {
  const TempDir folder;
  data::DataSettings settings;
  settings.path = folder / "r.h5";
  settings.shuffle = GENERATE(true, false);
  settings.partition = GENERATE(data::Partition::automatic, data::Partition::strata);
  if (settings.partition == data::Partition::strata && !settings.shuffle) return;
  {
    data::hdf5::File file(settings.path, data::hdf5::File::Mode::create);
    file.write("train/users", std::vector<std::uint32_t>{0, 1, 0});
    file.write("train/items", std::vector<std::uint32_t>{0, 0, 1});
    file.write("train/ratings", std::vector<float>{1, 2, 3});
    file.write("test/users", std::vector<std::uint32_t>{0, 2, 1, 3});
    file.write("test/items", std::vector<std::uint32_t>{1, 0, 2, 2});
    file.write("test/ratings", std::vector<float>{1, 2, 3, 4});
  }
  const auto set = data::open_dataset(settings, 1);
  const data::Unseen unseen = set->unseen(Split::test);
  CHECK(unseen.examples == 4);
  CHECK(unseen.users == 2);
  CHECK(unseen.items == 2);
  CHECK(unseen.both == 1);
}

TEST_CASE("text without pairs of words is refused for training", "[unseen]") {
  const TempDir folder;
  data::DataSettings settings;
  settings.path = folder / "t.h5";
  const auto write = [&](const std::vector<std::uint64_t>& train, const std::vector<std::uint64_t>& test) {
    data::hdf5::File file(settings.path, data::hdf5::File::Mode::create);
    for (const auto& [group, sentences] : {std::pair("train", &train), std::pair("test", &test)}) {
      file.write(std::string(group) + "/words", std::vector<std::int32_t>(sentences->back()));
      file.write(std::string(group) + "/sentences", *sentences);
    }
    test::write_names(file, "dictionary/words", 2);
  };
  write({0, 1, 2, 3}, {0, 2});
  CHECK_THAT(test::message_of<DataError>([&] { data::open_dataset(settings, 1); }),
             Contains("t.h5: no training sentence has two or more words") && Contains("--minimum-count"));
  write({0, 1, 3}, {0, 1, 2});
  const auto set = data::open_dataset(settings, 1);
  CHECK(set->unseen(Split::test).no_pairs);
  CHECK_FALSE(set->unseen(Split::train).no_pairs);
}

TEST_CASE("names that differ in capital letters, dots and blanks are found", "[unseen]") {
  CHECK(data::twin_of("<=50K.", {">50K", "<=50K"}) == "<=50K");
  CHECK(data::twin_of("new  york", {"New York"}) == "New York");
  CHECK(data::twin_of("a", {"a"}).empty());
  CHECK(data::twin_of("a-b", {"ab"}).empty());
}
