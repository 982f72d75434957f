#include <catch2/catch.hpp>
#include <optional>
#include <value_of.hpp>

#include "sparse_sets.hpp"

using namespace unisono::data;
using namespace unisono::test;

namespace {

using Counts = std::vector<std::int64_t>;

/// The classes of the training split, counted in a pass over it.
Counts counted(unisono::data::Dataset& set) {
  Counts counts(static_cast<std::size_t>(set.info().classes));
  const auto source = set.evaluate(unisono::data::Split::train, 0, 1, 16);
  while (const auto batch = source->next()) {
    for (const std::int32_t label : batch->labels) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

/// A set of ten rows of one value, of which every third is of class 1 and the last of class 2.
std::string write_sparse(const std::string& path) {
  unisono::data::hdf5::File file(path, unisono::data::hdf5::File::Mode::create);
  for (const std::string group : {"train", "test"}) {
    std::vector<std::uint64_t> indptr{0};
    std::vector<std::uint32_t> indices;
    std::vector<std::int32_t> labels;
    for (int row = 0; row < 10; ++row) {
      indices.push_back(static_cast<std::uint32_t>(row % 4));
      indptr.push_back(indices.size());
      labels.push_back(row == 9 ? 2 : row % 3 == 0 ? 1 : 0);
    }
    file.write(group + "/features/indptr", indptr);
    file.write(group + "/features/indices", indices);
    file.write_attribute(group + "/features", "columns", std::int64_t{4});
    file.write(group + "/labels", labels);
  }
  return path;
}

}  // namespace

TEST_CASE("classes are counted over the training examples, however the set is read", "[weights]") {
  const unisono::test::TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.train = 1003, .test = 9, .classes = 5, .chunk_rows = 16});
  for (const std::string reader : {"resident", "streaming"}) {
    for (const std::string partition : {"global", "fixed"}) {
      for (const double fraction : {0.0, 0.3}) {
        CAPTURE(reader, partition, fraction);
        settings.reader = unisono::value_of(reader, unisono::data::kReaders);
        settings.partition = unisono::value_of(partition, unisono::data::kPartitions);
        settings.validation_fraction = fraction;
        unisono::test::ThreadRanks threads(2);
        std::vector<Counts> found(2);
        threads.run([&](int rank) {
          found[static_cast<std::size_t>(rank)] =
              unisono::data::open_dataset(settings, 1, threads.share(rank))->class_counts();
        });
        const auto alone = unisono::data::open_dataset(settings, 1);
        const Counts expected = counted(*alone);
        CHECK(alone->class_counts() == expected);
        CHECK(found == std::vector<Counts>(2, expected));
        if (fraction == 0) CHECK(expected == Counts{201, 201, 201, 200, 200});
      }
    }
  }
}

TEST_CASE("a set without labels has no classes to count", "[weights]") {
  const unisono::test::TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.train = 10});
  settings.targets = unisono::data::Targets::features;
  CHECK(unisono::data::open_dataset(settings, 1)->class_counts().empty());
}

TEST_CASE("training batches have their examples' class weights, evaluations none", "[weights]") {
  const unisono::test::TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.train = 20, .classes = 3});
  for (const std::string reader : {"resident", "streaming"}) {
    settings.reader = unisono::value_of(reader, unisono::data::kReaders);
    const auto set = unisono::data::open_dataset(settings, 1);
    const std::vector<float> weights = {0.5F, 2, 0};
    const auto source = set->train({.batch_size = 6, .class_weights = weights});
    for (int step = 0; step < 8; ++step) {
      const unisono::data::Batch batch = source->next();
      REQUIRE(batch.weights.size() == static_cast<std::size_t>(batch.size));
      for (std::size_t i = 0; i < batch.weights.size(); ++i) {
        CHECK(batch.weights[i] == weights[static_cast<std::size_t>(batch.labels[i])]);
      }
    }
    CHECK(set->train({.batch_size = 6})->next().weights.empty());
    CHECK(set->evaluate(unisono::data::Split::train, 0, 1, 8)->next()->weights.empty());
  }
}

TEST_CASE("sparse rows have class weights beside their answers", "[weights]") {
  const unisono::test::TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = write_sparse(folder / "a.h5");
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK(set->class_counts() == Counts{6, 3, 1});
  const auto plain = set->train({.batch_size = 4, .seed = 1});
  CHECK(std::get<unisono::data::LabelledRows>(*plain->next().set).weights.empty());
  const std::vector<float> weights = {0.5F, 2, 7};
  const auto first = set->train({.batch_size = 4, .seed = 1, .class_weights = weights});
  const auto second = set->train({.rank = 1, .size = 2, .batch_size = 4, .seed = 1, .class_weights = weights});
  for (unisono::data::BatchSource* source : {first.get(), second.get()}) {
    const auto& rows = std::get<unisono::data::LabelledRows>(*source->next().set);
    REQUIRE(rows.weights.size() == 10);
    for (std::size_t i = 0; i < 10; ++i) CHECK(rows.weights[i] == weights[static_cast<std::size_t>(rows.targets[i])]);
  }
  CHECK(std::get<unisono::data::LabelledRows>(*set->evaluate(unisono::data::Split::test, 0, 1, 8)->next()->set)
            .weights.empty());
  settings.validation_fraction = 0.3;
  const auto split = unisono::data::open_dataset(settings, 1);
  const Counts counts = split->class_counts();
  CHECK(counts[0] + counts[1] + counts[2] == 7);
}

TEST_CASE("examples of which none has a weight are refused, however the set is read", "[weights]") {
  const TempDir folder;
  DataSettings settings;
  settings.path = folder / "a.h5";
  const std::vector<float> features = {0, 1, 2, 3};
  {
    hdf5::File file(settings.path, hdf5::File::Mode::create);
    file.create<float>("train/features", {4, 1});
    file.write_rows("train/features", 0, 4, features.data());
    file.write("train/labels", std::vector<std::int32_t>{0, 1, 0, 1});
    file.write("train/weights", std::vector<float>(4, 0));
  }
  settings.reader = GENERATE(Reader::resident, Reader::streaming);
  CHECK_THAT(message_of<unisono::DataError>([&] { open_dataset(settings, 1); }),
             Catch::Contains("a.h5: /train/weights: all weights are 0, so that nothing would be learned"));
  const float some = 0.5F;
  hdf5::File(settings.path, hdf5::File::Mode::update).write_rows("train/weights", 3, 1, &some);
  CHECK(open_dataset(settings, 1)->info().weighted);
}
