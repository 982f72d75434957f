// Several files as one set: its examples, in the order of the files' names, are those of one file.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "sets.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {
namespace {

using Catch::Contains;
using hdf5::File;
using test::TempDir;

/// Examples [first, last) of a set, with all that a group may hold: example i is (i, i + ½), of class i mod 3.
void write_rows_of_set(File& file, const std::string& group, int first, int last) {
  std::vector<float> features, weights;
  std::vector<std::int32_t> labels;
  std::vector<std::string> patients, names;
  for (int i = first; i < last; ++i) {
    features.insert(features.end(), {static_cast<float>(i), static_cast<float>(i) + 0.5F});
    weights.push_back(1 + static_cast<float>(i % 4));
    labels.push_back(i % 3);
    patients.push_back(fmt::format("patient {}", i / 4));
    names.push_back(fmt::format("{}.txt", i));
  }
  const auto rows = static_cast<std::uint64_t>(last - first);
  file.create<float>(group + "/features", {rows, 2}, /*chunk_rows=*/3, /*compression=*/1);
  file.write_rows(group + "/features", 0, rows, features.data());
  file.write(group + "/labels", labels);
  file.write(group + "/weights", weights);
  file.write_strings(group + "/groups", patients);
  file.write_strings(group + "/files", names);
}

constexpr int kTrain = 37, kTest = 8;

/// The set as one file.
std::string write_whole(const std::string& path) {
  File file(path, File::Mode::create);
  write_rows_of_set(file, "train", 0, kTrain);
  write_rows_of_set(file, "test", 100, 100 + kTest);
  file.write_attribute("", "classes", std::int64_t{3});
  return path;
}

/// The set as three files, of which the first has no test examples. \return their pattern
std::string write_parts(const TempDir& folder) {
  const int train[] = {0, 10, 11, kTrain}, test[] = {100, 100, 105, 100 + kTest};
  for (int i = 0; i < 3; ++i) {
    File file(folder / fmt::format("part-{}.h5", i), File::Mode::create);
    write_rows_of_set(file, "train", train[i], train[i + 1]);
    if (test[i] < test[i + 1]) write_rows_of_set(file, "test", test[i], test[i + 1]);
    file.write_attribute("", "classes", std::int64_t{3});
  }
  return folder / "part-*.h5";
}

DataSettings settings_of(const std::string& path, Reader reader = Reader::automatic) {
  DataSettings settings;
  settings.path = path;
  settings.reader = reader;
  return settings;
}

/// Examples of two epochs in the order of training, and their features, labels and weights.
std::vector<double> trained_on(Dataset& set) {
  const auto source = set.train({.batch_size = 5, .seed = 7});
  std::vector<double> all;
  for (int step = 0; step < 16; ++step) {
    const Batch batch = source->next();
    all.insert(all.end(), batch.examples.begin(), batch.examples.end());
    all.insert(all.end(), batch.features.begin(), batch.features.end());
    all.insert(all.end(), batch.labels.begin(), batch.labels.end());
    all.insert(all.end(), batch.weights.begin(), batch.weights.end());
  }
  return all;
}

TEST_CASE("several files as one set are the set of one file") {
  const TempDir folder;
  const std::string whole = write_whole(folder / "whole.h5"), parts = write_parts(folder);
  const Reader reader = GENERATE(Reader::resident, Reader::streaming);
  const auto one = open_dataset(settings_of(whole, reader), 1), joined = open_dataset(settings_of(parts, reader), 1);
  CHECK(joined->info().train == kTrain);
  CHECK(joined->info().test == kTest);
  CHECK(joined->info().identity == one->info().identity);
  CHECK(joined->class_counts() == one->class_counts());
  CHECK(trained_on(*joined) == trained_on(*one));
  CHECK(test::features_of(*joined, Split::test) == test::features_of(*one, Split::test));
  CHECK(joined->file_names(Split::test) == one->file_names(Split::test));
  CHECK(joined->file_names(Split::train).at(10) == "10.txt");
  CHECK(read_training_column(settings_of(parts), "groups") == read_training_column(settings_of(whole), "groups"));
  CHECK(count_training_rows(settings_of(parts)) == kTrain);
  CHECK(read_training_labels(settings_of(parts)) == read_training_labels(settings_of(whole)));
}

TEST_CASE("rows of joined files are read across their borders") {
  const TempDir folder;
  std::vector<File> parts;
  for (const int size : {3, 0, 4}) {
    const std::string path = folder / fmt::format("{}.h5", size);
    std::vector<std::int32_t> values(static_cast<std::size_t>(size));
    std::iota(values.begin(), values.end(), 10 * size);
    File(path, File::Mode::create).write("train/labels", values);
    parts.emplace_back(path, File::Mode::read);
  }
  const File file = File::join("all", std::move(parts), {"train"});
  CHECK(file.read<std::int32_t>("train/labels") == std::vector{30, 31, 32, 40, 41, 42, 43});
  std::vector<std::int32_t> some(3);
  file.read_rows("train/labels", 2, 3, some.data());
  CHECK(some == std::vector{32, 40, 41});
  CHECK(file.shape("train/labels").extent == std::vector<std::uint64_t>{7});
  CHECK(file.children("") == std::vector<std::string>{"train"});
  CHECK_THROWS_WITH(file.read_rows("train/labels", 5, 3, some.data()), Contains("all: /train/labels"));
  CHECK_THROWS_WITH(file.shape("train/targets"), Contains("/train/targets does not exist"));
}

/// The message on a pattern of a good file and of one that `write` makes.
std::string refusal(const std::function<void(File&)>& write) {
  const TempDir folder;
  write_whole(folder / "a.h5");
  {
    File file(folder / "b.h5", File::Mode::create);
    write(file);
  }
  return test::message_of<DataError>([&] { open_dataset(settings_of(folder / "*.h5"), 1); });
}

TEST_CASE("files that do not fit together are no set") {
  const auto with_classes = [](File& file, std::int64_t classes) {
    write_rows_of_set(file, "train", 0, 4);
    file.write_attribute("", "classes", classes);
  };
  CHECK_THAT(refusal([&](File& file) { with_classes(file, 4); }), Contains("b.h5: has other classes, unlike"));
  CHECK_THAT(refusal([&](File& file) {
               with_classes(file, 3);
               file.write_attribute("", "label_names", std::vector<std::string>{"cat", "dog"});
             }),
             Contains("b.h5: has other labels, unlike"));
  CHECK_THAT(refusal([&](File& file) {
               with_classes(file, 3);
               file.write("train/times", std::vector{1.0, 2.0, 3.0, 4.0});
             }),
             Contains("b.h5: /train holds features, files, groups, labels, times, weights and not "
                      "features, files, groups, labels, weights, unlike"));
  CHECK_THAT(refusal([&](File& file) {
               with_classes(file, 3);
               file.write_attribute("train/features", "scale", 0.5);
             }),
             Contains("b.h5: /train/features has another attribute 'scale', unlike"));
  CHECK_THAT(refusal([&](File& file) {
               with_classes(file, 3);
               file.write("recipe", std::vector<std::uint8_t>{'{', '}'});
             }),
             Contains("b.h5: was imported in another way"));
  CHECK_THAT(refusal([&](File& file) {
               file.create<double>("train/features", {2, 2});
               file.write_attribute("", "classes", std::int64_t{3});
               file.write("train/labels", std::vector{0, 1});
               file.write("train/weights", std::vector{1.0F, 1.0F});
               file.write_strings("train/groups", {"a", "b"});
               file.write_strings("train/files", {"a", "b"});
             }),
             Contains("/train/features has shape [2, 2] and type float64 where the other has [37, 2] and float32"));
  CHECK_THAT(refusal([](File& file) {
               file.write("train/tokens", std::vector<std::uint16_t>{0, 1, 2});
             }),
             Contains("b.h5: holds tokens, but only tables and pictures can be several files"));
  CHECK_THAT(refusal([](File& file) {
               file.write("train/labels", std::vector{0, 1});
             }),
             Contains("b.h5: has other classes"));
}

TEST_CASE("each file of a set has as many labels as examples, also where the sums fit") {
  const TempDir folder;
  for (const int i : {0, 1}) {
    File file(folder / fmt::format("{}.h5", i), File::Mode::create);
    file.create<float>("train/features", {4, 2});
    file.write_rows("train/features", 0, 4, std::vector<float>(8).data());
    file.write("train/labels", std::vector<std::int32_t>(i == 0 ? 5 : 3));
    file.write_attribute("", "classes", std::int64_t{2});
  }
  CHECK_THAT(test::message_of<DataError>([&] { open_dataset(settings_of(folder / "*.h5"), 1); }),
             Contains("0.h5: /train/labels holds 5 values, but /train/features 4 examples"));
}

TEST_CASE("a pattern without files, and a file whose name is a pattern") {
  const TempDir folder;
  CHECK_THAT(test::message_of<DataError>([&] { open_dataset(settings_of(folder / "no-*.h5"), 1); }),
             Contains("no-*.h5: no file has a name like this"));
  write_whole(folder / "a[1].h5");
  CHECK(open_dataset(settings_of(folder / "a[1].h5"), 1)->info().train == kTrain);
}

TEST_CASE("a file of a set that is changed is noticed") {
  const TempDir folder;
  const std::string parts = write_parts(folder);
  const auto set = open_dataset(settings_of(parts, Reader::streaming), 1);
  const std::uint64_t identity = set->info().identity;
  std::ofstream(folder / "part-1.h5", std::ios::app) << "more";
  CHECK_THAT(test::message_of<DataError>([&] { trained_on(*set); }),
             Contains("part-1.h5") && Contains("changed while"));
  std::filesystem::remove(folder / "part-1.h5");
  CHECK(open_dataset(settings_of(parts), 1)->info().identity != identity);
}

}  // namespace
}  // namespace unisono::data
