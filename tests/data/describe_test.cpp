#include "unisono/data/dataset.hpp"

#include <catch2/catch.hpp>

#include "describe/figures.hpp"
#include "sets.hpp"
#include "unisono/data/advice.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;

TEST_CASE("images become shades, two rows of pixels a line, side by side", "[describe]") {
  // 4 × 3 pixels: the lines show the means of rows 0 and 1, and of rows 2 and 3.
  const std::vector<float> ramp = {0, 0.5, 1, 0, 0.5, 1, 0, 0, 0, 1, 1, 1};
  CHECK(unisono::data::draw_images({ramp, ramp}, {1, 4, 3}) == " +@| +@\n+++|+++\n");
  CHECK(unisono::data::draw_images({std::vector<float>(4, 7)}, {1, 2, 2}) ==
        "  \n");  // nothing to see where all are equal
  const auto wide = unisono::data::draw_images({std::vector<float>(3 * 8 * 100, 1)}, {3, 8, 100});
  CHECK(wide.find('\n') == 25);  // reduced by 4
}

TEST_CASE("a survey gives range, mean and deviation of values as a model sees them", "[describe]") {
  const TempDir folder;
  {
    unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::create);
    const std::uint8_t stored[] = {0, 2, 4, 6};
    file.create<std::uint8_t>("train/features", {2, 2});
    file.write_rows("train/features", 0, 2, stored);
    file.write_attribute("train/features", "scale", 0.5);
    file.write_attribute("train/features", "offset", 10.0);
    file.write<float>("train/targets", {-1, 3});
    file.write<std::int64_t>("train/labels", {2, 0});
  }
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  const unisono::data::SetSchema schema = unisono::data::read_schema(file, {});
  const unisono::data::Survey features = unisono::data::survey_features(file, schema.any_group());  // 10, 11, 12, 13
  CHECK(features.low == 10);
  CHECK(features.high == 13);
  CHECK(features.mean == Approx(11.5));
  CHECK(features.deviation == Approx(std::sqrt(1.25)));
  CHECK(features.examples == 2);
  CHECK(unisono::data::survey_targets(file, schema.any_group()).mean == Approx(1));
  CHECK(unisono::data::count_labels(file, schema.any_group()) == std::vector<std::int64_t>{1, 0, 1});
}

TEST_CASE("a description names groups, shapes, chunking, range and class balance, and shows images", "[describe]") {
  const TempDir folder;
  unisono::data::make_digits({.train = 1234, .validation = 0, .test = 100},
                             {.path = folder / "a.h5", .compression = 1});
  const std::string text = unisono::data::describe_set(folder / "a.h5");
  CHECK_THAT(text, Contains("examples of 1 channel of 28 × 28"));
  CHECK_THAT(text, Contains("train: 1,234 examples"));
  CHECK_THAT(text, Contains("uint8 [1234, 28, 28], in chunks of [334, 28, 28], compressed"));
  CHECK_THAT(text, Contains("value = 0.00392157 · stored + 0"));
  CHECK_THAT(text, Contains("0 to 1, mean 0.1"));
  CHECK_THAT(text, Contains("uint8, 10 classes"));
  CHECK_THAT(text, Contains("first examples of train:") && Contains("@"));
}

TEST_CASE("a description of a table shows its first rows", "[describe]") {
  const TempDir folder;
  unisono::test::write_set(folder / "a.h5", {.train = 3, .shape = {10}});
  const std::string text = unisono::data::describe_set(folder / "a.h5");
  CHECK_THAT(text, Contains("examples of 10 features"));
  CHECK_THAT(text, Contains("float32 [3, 10], contiguous"));
  CHECK_THAT(text, Contains("  10, 11, 12, 13, 14, 15, 16, 17, …"));
}

TEST_CASE("advice names chunks that make streaming slow or coarse, and commands against them", "[describe]") {
  const TempDir folder;
  const auto advice = [&](std::uint64_t chunk_rows, int compression) {
    return advise_on_set(unisono::test::write_set(
        folder / "set.h5",
        {.train = 20000, .shape = {100}, .classes = 4, .chunk_rows = chunk_rows, .compression = compression}));
  };
  // 400 bytes a row: 2,621 rows are 1 MiB.
  const std::string good = advice(0, 0);
  CHECK_THAT(good, Contains("/train/features           float32 20000 × 100, 7.6 MiB, contiguous"));
  CHECK_THAT(good, Contains("reads blocks of 2,621 examples"));
  CHECK_THAT(good, Contains("25.0 % would") && Contains("Nothing needs to be changed."));
  CHECK_THAT(advice(10, 0), Contains("chunks of 3.9 KiB make many small reads. Chunks of about 1 MiB: h5repack -l "
                                     "train/features:CHUNK=2621x100 "));
  CHECK_THAT(advice(20000, 4), Contains("a compressed chunk of 7.6 MiB is read and unpacked as a whole"));
  CHECK_THAT(advice(20000, 0), Contains("Nothing needs to be changed."));
}

TEST_CASE("advice finds a set that is sorted by class and larger than the window", "[describe]") {
  const TempDir folder;
  const std::string path = unisono::test::write_set<std::uint8_t>(
      folder / "set.h5", {.train = 136, .shape = {1 << 20}, .classes = 4});  // 136 blocks, of which 128 are shuffled
  CHECK_THAT(advise_on_set(path), Contains("Nothing needs to be changed."));
  std::vector<std::int64_t> labels(136);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i) / 34;
  hdf5::File(path, hdf5::File::Mode::update).write_rows("train/labels", 0, labels.size(), labels.data());
  CHECK_THAT(advise_on_set(path), Contains("97.8 % of the examples have the class of the example before"));
  CHECK_THAT(advise_on_set(path), Contains("/train is sorted by class") && Contains("data.window_bytes = 28521"));
}
