// Every way in which a file can be wrong is a DataError that names the file, the dataset and what to do.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "sets.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::data::hdf5::File;
using unisono::test::kNan;
using unisono::test::TempDir;
using unisono::test::write_set;

namespace {

struct Group {
  std::vector<float> features = {1, 2, 3, 4};  ///< two examples of two features
  std::vector<float> labels = {0, 1};
};

void write_dense_group(File& file, const std::string& name, const Group& group) {
  file.create<float>(name + "/features", {group.features.size() / 2, 2});
  file.write_rows(name + "/features", 0, group.features.size() / 2, group.features.data());
  file.write(name + "/labels", group.labels);
}

/// What opening a set says that `make` wrote.
std::string dense_message(const std::function<void(File&)>& make, unisono::data::DataSettings settings = {}) {
  const TempDir folder;
  settings.path = folder / "a.h5";
  {
    File file(settings.path, File::Mode::create);
    make(file);
  }
  settings.reader = GENERATE(unisono::data::Reader::resident, unisono::data::Reader::streaming);
  std::string text = unisono::test::message_of<unisono::DataError>([&] {
    const auto set = unisono::data::open_dataset(settings, 1);
    const auto source = set->train({.batch_size = 2});
    source->next();
  });
  if (!text.empty()) CHECK_THAT(text, Contains(settings.path));
  return text;
}

}  // namespace

TEST_CASE("a sound set is no error", "[dataset]") {
  CHECK(dense_message([](File& file) { write_dense_group(file, "train", {}); }).empty());
}

TEST_CASE("labels that are names are refused with what to do", "[dataset]") {
  const auto named = [](File& file) {
    file.create<float>("train/features", {2, 2});
    file.write_rows("train/features", 0, 2, std::vector<float>{1, 2, 3, 4}.data());
    file.write_strings("train/labels", {"cat", "dog"});
  };
  CHECK_THAT(dense_message(named), Contains("/train/labels holds text; store whole numbers 0 … K−1") &&
                                       Contains("attribute class_names") &&
                                       Contains("numpy.unique(labels, return_inverse=True)"));
}

TEST_CASE("missing groups and datasets", "[dataset]") {
  CHECK_THAT(dense_message([](File& file) { file.write<float>("images", {1}); }),
             Contains("has no group 'train'") && Contains("images"));
  CHECK_THAT(dense_message([](File& file) { write_dense_group(file, "test", {}); }), Contains("has no group 'train'"));
  CHECK_THAT(dense_message([](File& file) { file.write<float>("train", {1}); }), Contains("/train is a dataset"));
  CHECK_THAT(dense_message([](File& file) { file.write<float>("train/labels", {1}); }),
             Contains("/train has no dataset 'features'"));
  CHECK_THAT(dense_message([](File& file) { file.write<float>("train/features", {1}); }),
             Contains("/train has neither 'labels' nor 'targets'") && Contains("data.targets = \"features\""));
}

TEST_CASE("lengths, shapes and types that do not fit", "[dataset]") {
  CHECK_THAT(dense_message([](File& file) { write_dense_group(file, "train", {.labels = {0}}); }),
             Contains("/train/labels holds 1 value but /train/features holds 2 examples"));
  CHECK_THAT(dense_message([](File& file) { write_dense_group(file, "train", {.features = {}, .labels = {}}); }),
             Contains("/train/features is empty"));
  CHECK_THAT(dense_message([](File& file) {
               file.create<float>("train/features", {4, 0});
             }),
             Contains("examples have no features"));
  CHECK_THAT(dense_message([](File& file) {
               file.create<float>("train/features", {1, 2, 3, 4, 5});
             }),
             Contains("has 5 axes"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {});
               file.create<float>("test/features", {2, 3});
               file.write<float>("test/labels", {0, 1});
             }),
             Contains("/test/features has examples of a different shape ([2, 3]) than /train/features ([2, 2])"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {});
               file.create<float>("test/features", {2, 2});
               file.write<float>("test/targets", {0, 1});
             }),
             Contains("/test does not have the same kind of labels or targets as /train"));
  CHECK_THAT(dense_message([](File& file) {
               file.create<float>("train/features", {2, 2});
               file.create<float>("train/labels", {2, 10});
             }),
             Contains("/train/labels has shape [2, 10], but needs one class number per example"));
}

TEST_CASE("values that are no numbers name the example", "[dataset]") {
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {.features = {1, 2, 3, kNan}});
             }),
             Contains("/train/features: example 1 holds a value that is not finite") && Contains("position 1"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {.features = {std::numeric_limits<float>::infinity(), 2, 3, 4}});
             }),
             Contains("/train/features: example 0"));
  CHECK_THAT(dense_message([](File& file) {
               file.create<float>("train/features", {2, 1});
               const float zeros[2] = {};
               file.write_rows("train/features", 0, 2, zeros);
               file.write<float>("train/targets", {0, kNan});
             }),
             Contains("/train/targets: example 1"));
  for (const std::uint16_t bits : {0x7C00, 0xFC00, 0x7E00}) {  // float16: ∞, −∞, NaN
    CHECK_THAT(dense_message([&](File& file) {
                 const unisono::data::hdf5::Half halves[2] = {{0x3C00}, {bits}};
                 file.create<unisono::data::hdf5::Half>("train/features", {2, 1});
                 file.write_rows("train/features", 0, 2, halves);
                 file.write<float>("train/targets", {0, 1});
               }),
               Contains("/train/features: example 1 holds a value that is not finite"));
    CHECK_THAT(dense_message([&](File& file) {
                 const float zeros[2] = {};
                 const unisono::data::hdf5::Half halves[2] = {{0x3C00}, {bits}};
                 file.create<float>("train/features", {2, 1});
                 file.write_rows("train/features", 0, 2, zeros);
                 file.create<unisono::data::hdf5::Half>("train/targets", {2});
                 file.write_rows("train/targets", 0, 2, halves);
               }),
               Contains("/train/targets: example 1 holds a value that is not finite"));
  }
  CHECK_THAT(dense_message([](File& file) {  // 1e300 is no float32
               file.create<double>("train/features", {1, 1});
               const double large = 1e300;
               file.write_rows("train/features", 0, 1, &large);
               file.write<float>("train/labels", {0});
             }),
             Contains("/train/features: example 0") && Contains("beyond float32"));
}

TEST_CASE("labels that are no classes name the example", "[dataset]") {
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {.labels = {0, -1}});
             }),
             Contains("/train/labels: example 1 has the label -1"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {.labels = {0.5, 1}});
             }),
             Contains("example 0 has the label 0.5"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {.labels = {0, 4e9F}});
             }),
             Contains("example 1 has the label"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {.labels = {kNan, 0}});
             }),
             Contains("example 0 has the label nan"));
  CHECK_THAT(
      dense_message([](File& file) {
        write_dense_group(file, "train", {});
        write_dense_group(file, "test", {.labels = {0, 2}});
      }),
      Contains("/test/labels: a label is 2, which is out of range for the 2 classes that the training labels show"));
  CHECK_THAT(
      dense_message([](File& file) {
        write_dense_group(file, "train", {.labels = {0, 3}});
        file.write_attribute("", "classes", std::int64_t{3});
      }),
      Contains("/train/labels: a label is 3, which is out of range for the 3 classes that the file's attribute"));
}

TEST_CASE("groups whose values stand for something else are refused in training", "[dataset]") {
  const auto scaled = [](double train, double test) {
    return dense_message([=](File& file) {
      write_dense_group(file, "train", {});
      write_dense_group(file, "test", {});
      if (train != 1) file.write_attribute("train/features", "scale", train);
      if (test != 1) file.write_attribute("test/features", "scale", test);
    });
  };
  CHECK(scaled(0.5, 0.5).empty());
  CHECK_THAT(scaled(0.5, 1),
             Contains("/test/features holds values that stand for 1 · value + 0, but in /train/features "
                      "values of the same type stand for 0.5 · value + 0") &&
                 Contains("give both the same attributes"));
  CHECK_THAT(scaled(1, 0.5), Contains("/test/features holds values that stand for 0.5"));

  const auto named = [](const std::vector<std::string>& test) {
    return dense_message([&](File& file) {
      for (const std::string name : {"train", "test"}) {
        write_dense_group(file, name, {});
        const std::vector<std::string> names = name == "train" ? std::vector<std::string>{"age", "height"} : test;
        if (!names.empty()) file.write_attribute(name + "/features", "feature_names", names);
      }
    });
  };
  CHECK(named({}).empty());
  CHECK(named({"age", "height"}).empty());
  CHECK_THAT(named({"height", "age"}),
             Contains("/test/features has 'height' as feature 1, but /train/features has 'age'; put"));
}

TEST_CASE("attributes that make no sense", "[dataset]") {
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {});
               file.write_attribute("train/features", "scale", 0.0);
             }),
             Contains("scale = 0"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {});
               file.write_attribute("train/features", "offset", std::string("none"));
             }),
             Contains("/train/features attribute 'offset' has the wrong type"));
  CHECK_THAT(dense_message([](File& file) {
               write_dense_group(file, "train", {});
               file.write_attribute("", "classes", std::int64_t{3});
               file.write_attribute("", "class_names", std::vector<std::string>{"a", "b"});
             }),
             Contains("classes = 3 but 2 class_names"));
}

TEST_CASE("settings that do not fit the file are a config error", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.validation = 2});
  const auto refusal = [&] {
    return unisono::test::message_of<unisono::ConfigError>([&] { unisono::data::open_dataset(settings, 1); });
  };
  settings.validation_fraction = 0.1;
  CHECK_THAT(refusal(), Contains("data.validation_fraction = 0.1") && Contains("has a group 'validation'"));
  settings.validation_fraction = 0;
  settings.augmentation.shift = 1;
  CHECK_THAT(refusal(), Contains("[data.augmentation]") && Contains("rows of 3 features"));
}

TEST_CASE("an error of one rank is the error of all", "[dataset]") {
  const TempDir folder;
  unisono::test::write_set(folder / "good.h5", {});
  unisono::test::ThreadRanks threads(3);
  std::vector<std::string> messages(3);
  threads.run([&](int rank) {
    unisono::data::DataSettings settings;
    settings.path = rank == 1 ? folder / "gone.h5" : folder / "good.h5";
    messages[static_cast<std::size_t>(rank)] = unisono::test::message_of<unisono::Error>(
        [&] { unisono::data::open_dataset(settings, 1, threads.share(rank)); });
  });
  for (const auto& text : messages) CHECK(text == folder / "gone.h5: there is no such file; check the path");
}

TEST_CASE("what a trained model is applied to needs neither a training group nor labels", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.train = 0, .test = 4, .classes = 0});
  settings.normalization = unisono::data::NormalizationKind::channel;  // the model's counts, not this file's
  const unisono::data::Preprocessing trained{.normalization = {{1}, {2}}};
  const auto set = unisono::data::open_dataset(settings, 1, {}, &trained);
  CHECK(set->info().test == 4);
  CHECK(set->info().train == 0);
  const auto source = set->evaluate(unisono::data::Split::test, 0, 1, 4);
  const auto batch = source->next();
  CHECK(batch->labels.empty());
  CHECK(batch->targets.empty());
  CHECK(batch->features[5] == (5 - 1) * 2);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { set->train({}); }), Contains("has no group 'train'"));
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([&] { set->evaluate(unisono::data::Split::validation, 0, 1, 1); }),
      Contains("'validation'"));

  const unisono::data::Preprocessing other{.normalization = {{1, 2}, {2, 3}}};
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([&] { unisono::data::open_dataset(settings, 1, {}, &other); }),
      Contains("normalises 2"));
}
