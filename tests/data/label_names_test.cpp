#include "unisono/data/label_names.hpp"

#include <catch2/catch.hpp>

#include "sets.hpp"

using namespace unisono::data;
using namespace unisono::test;
using Catch::Contains;

namespace {

using LabelNames = std::vector<std::string>;

/// Four training and three test examples of one feature, with the labels of these names.
std::string write_labels(const std::string& path, const LabelNames& names, const std::vector<float>& rows) {
  hdf5::File file(path, hdf5::File::Mode::create);
  const std::size_t width = names.size();
  std::size_t first = 0;
  for (const auto& [group, examples] : {std::pair<std::string, std::size_t>("train", 4), {"test", 3}}) {
    file.write(group + "/features", std::vector<float>(examples, 1));
    file.create<float>(group + "/targets", {examples, width});
    file.write_rows(group + "/targets", 0, examples, rows.data() + first * width);
    first += examples;
  }
  file.write_attribute("", "label_names", names);
  return path;
}

std::vector<float> targets_of(Dataset& set, Split split) {
  std::vector<float> targets;
  const auto source = set.evaluate(split, 0, 1, 2);
  while (const auto batch = source->next()) {
    targets.insert(targets.end(), batch->targets.begin(), batch->targets.end());
  }
  return targets;
}

}  // namespace

TEST_CASE("names of several labels are distinct, and do not hold what separates them", "[label_names]") {
  CHECK(problem_of_labels({"cat", "dog", "big, red car"}).empty());
  CHECK(problem_of_labels({"cat", "dog", "cat"}) == "two labels are named 'cat'");
  CHECK_THAT(problem_of_labels({"cat;dog"}), Contains("'cat;dog' has a ';'"));
  CHECK_THAT(problem_of_labels({"cat\ndog"}), Contains("the end of a line"));
  CHECK_THAT(problem_of_labels({"a\xff"}), Contains("not UTF-8"));
  CHECK_THAT(problem_of_labels({"a", ""}), Contains("no name"));
}

TEST_CASE("the labels whose values are above one half are listed by their names", "[label_names]") {
  const LabelNames names = {"cat", "dog", "car"};
  CHECK(join_labels(std::vector<float>{1, 0, 0.75F}, names) == "cat;car");
  CHECK(join_labels(std::vector<float>{0.5F, 0, 0.25F}, names).empty());
}

TEST_CASE("a set names the labels of its targets, and a trained model finds them by name", "[label_names]") {
  const TempDir folder;
  const LabelNames names = {"cat", "dog", "car"};
  const std::vector<float> rows = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1};
  DataSettings settings;
  settings.reader = GENERATE(Reader::resident, Reader::streaming);
  settings.path = write_labels(folder / "a.h5", names, rows);
  const auto set = open_dataset(settings, 1);
  CHECK(set->info().several_labels);
  CHECK(set->info().target_size == 3);
  CHECK(set->preprocessing().label_names == names);
  const std::vector<float> expected = targets_of(*set, Split::test);
  CHECK(expected == std::vector<float>(rows.begin() + 12, rows.end()));

  // In another order, and without the label 'dog', which then no example has.
  std::vector<float> turned, fewer;
  for (std::size_t i = 0; i < rows.size(); i += 3) {
    turned.insert(turned.end(), {rows[i + 2], rows[i], rows[i + 1]});
    fewer.insert(fewer.end(), {rows[i + 2], rows[i]});
  }
  settings.path = write_labels(folder / "b.h5", {"car", "cat", "dog"}, turned);
  const auto other = open_dataset(settings, 1, {}, &set->preprocessing());
  CHECK(targets_of(*other, Split::test) == expected);
  CHECK(other->info().absent_labels.empty());
  settings.path = write_labels(folder / "c.h5", {"car", "cat"}, fewer);
  const auto third = open_dataset(settings, 1, {}, &set->preprocessing());
  CHECK(third->info().target_size == 3);
  CHECK(third->info().absent_labels == LabelNames{"dog"});
  CHECK(targets_of(*third, Split::test) == std::vector<float>{0, 0, 0, 1, 0, 1, 0, 0, 1});

  settings.path = write_labels(folder / "d.h5", {"car", "cat", "zebra"}, turned);
  CHECK_THAT(message_of<unisono::DataError>([&] { open_dataset(settings, 1, {}, &set->preprocessing()); }),
             Contains("has the label 'zebra', which the model was not trained on"));
}

TEST_CASE("label names that do not fit the targets are refused", "[label_names]") {
  const TempDir folder;
  DataSettings settings;
  settings.path = write_labels(folder / "a.h5", {"cat", "dog"}, std::vector<float>(14));
  const auto message = [&](const LabelNames& names, bool has_labels = false) {
    {
      hdf5::File file(settings.path, hdf5::File::Mode::update);
      file.write_attribute("", "label_names", names);
      if (has_labels) file.write("train/labels", std::vector<std::int32_t>(4));
      if (has_labels) file.write("test/labels", std::vector<std::int32_t>(3));
    }
    return message_of<unisono::DataError>([&] { open_dataset(settings, 1); });
  };
  CHECK_THAT(message({"cat", "dog", "car"}),
             Contains("/train/targets holds 2 values for each example") && Contains("label_names names 3 labels"));
  CHECK_THAT(message({"cat", "cat"}), Contains("two labels are named 'cat'"));
  CHECK_THAT(message({"cat", "dog"}, /*has_labels=*/true), Contains("/train/labels has one label for each example"));
}
