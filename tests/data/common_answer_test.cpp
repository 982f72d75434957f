#include "set/common_answer.hpp"

#include <catch2/catch.hpp>
#include <value_of.hpp>

#include "sets.hpp"

using namespace unisono::data;
using namespace unisono::test;

namespace {

/// Features 0 1 2 …, with the labels or targets of the training examples. The test examples have those of the last one.
std::string write(const std::string& path, const std::string& answers, const std::vector<float>& values) {
  hdf5::File file(path, hdf5::File::Mode::create);
  for (const std::string group : {"train", "test"}) {
    const std::vector<float> own = group == "train" ? values : std::vector<float>(3, values.back());
    std::vector<float> features;
    for (std::size_t i = 0; i < own.size(); ++i) features.push_back(static_cast<float>(i));
    file.create<float>(group + "/features", {own.size(), 1});
    file.write_rows(group + "/features", 0, own.size(), features.data());
    file.write(group + "/" + answers, own);
  }
  return path;
}

std::string text_of(Dataset& set, Split split) {
  const auto common = set.common_answer(split);
  return common ? common->text : "";
}

}  // namespace

TEST_CASE("what all examples of a split have in common is found, however the set is read", "[common_answer]") {
  const TempDir folder;
  struct Case {
    std::string answers;
    std::vector<float> values;
    std::string train, test;
  };
  const Case cases[] = {{"labels", {0, 0, 0, 1}, "", "the class 1"},
                        {"labels", {1, 1, 1, 1}, "the class 1", "the class 1"},
                        {"targets", {2.5F, 2.5F, 2.5F}, "the target 2.5", "the target 2.5"},
                        {"targets", {2.5F, 2.5F, -1}, "", "the target -1"}};
  int number = 0;
  for (const Case& one : cases) {
    DataSettings settings;
    settings.path = write(folder / (std::to_string(++number) + ".h5"), one.answers, one.values);
    for (const std::string reader : {"resident", "streaming"}) {
      CAPTURE(settings.path, reader);
      settings.reader = unisono::value_of(reader, kReaders);
      const auto set = open_dataset(settings, 1);
      CHECK(text_of(*set, Split::train) == one.train);
      CHECK(text_of(*set, Split::test) == one.test);
      CHECK(!set->common_answer(Split::validation));  // there is none
    }
  }
}

TEST_CASE("folds and held-back examples have answers of their own, and ranks with parts see the whole set",
          "[common_answer]") {
  const TempDir folder;
  DataSettings settings;
  settings.path = write(folder / "a.h5", "labels", {0, 1, 0, 1, 0, 1});
  const auto whole = open_dataset(settings, 1);
  CHECK(!whole->common_answer(Split::train));
  const auto fold = whole->fold_view({.train = {0, 2, 4}, .validation = {1, 3}});
  CHECK(text_of(*fold, Split::train) == "the class 0");
  CHECK(text_of(*fold, Split::validation) == "the class 1");
  settings.partition = unisono::data::Partition::fixed;
  ThreadRanks threads(2);
  std::vector<std::string> found(2, "not asked");
  threads.run([&](int rank) {
    const auto set = open_dataset(settings, 1, threads.share(rank));
    found[static_cast<std::size_t>(rank)] = text_of(*set, Split::train) + text_of(*set, Split::test);
  });
  CHECK(found == std::vector<std::string>(2, "the class 1"));
}

TEST_CASE("sparse rows have answers in common, too", "[common_answer]") {
  const TempDir folder;
  for (const bool differ : {false, true}) {
    const std::string path = folder / (differ ? "a.h5" : "b.h5");
    {
      hdf5::File file(path, hdf5::File::Mode::create);
      file.write("train/features/indptr", std::vector<std::uint64_t>{0, 1, 2, 3});
      file.write("train/features/indices", std::vector<std::uint32_t>{0, 1, 1});
      file.write_attribute("train/features", "columns", std::int64_t{2});
      file.write("train/labels", std::vector<std::int32_t>{1, 1, differ ? 0 : 1});
    }
    DataSettings settings;
    settings.path = path;
    CHECK(text_of(*open_dataset(settings, 1), Split::train) == (differ ? "" : "the class 1"));
    CHECK(text_of(*open_dataset(settings, 1), Split::test).empty());
  }
}

TEST_CASE("a common answer is told by its name", "[common_answer]") {
  AnswerComparison answers;
  CHECK_FALSE(answers.common(true, {}));
  const float one[] = {1}, other[] = {2};
  CHECK(answers.add(one));
  CHECK(answers.add(one));
  CHECK(answers.common(true, {"ash", "birch"})->text == "the class 'birch'");
  CHECK(answers.common(true, {})->text == "the class 1");
  CHECK(answers.common(true, {})->label == 1);
  CHECK_FALSE(answers.add(other));
  AnswerComparison pairs;
  const float both[] = {1, 2};
  CHECK(pairs.add(both));
  CHECK(pairs.common(false, {})->text == "the same 2 targets");
}
