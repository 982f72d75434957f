#include <algorithm>
#include <catch2/catch.hpp>

#include "support.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kExamples = 200, kFeatures = 3;

/// 200 rows of three numbers, row i holding 3 i, 3 i + 1 and 3 i + 2; classes 0 and 1 in turn; weights.
DataSettings write_table(const std::string& path, bool bytes) {
  hdf5::File file(path, hdf5::File::Mode::create);
  std::vector<float> values;
  std::vector<std::uint8_t> small;
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < kExamples * kFeatures; ++i) {
    values.push_back(static_cast<float>(i));
    small.push_back(static_cast<std::uint8_t>(i % 256));
  }
  for (std::int64_t i = 0; i < kExamples; ++i) {
    labels.push_back(static_cast<std::int32_t>(i % 2));
    weights.push_back(1 + static_cast<float>(i));
  }
  if (bytes) {
    file.create<std::uint8_t>("train/features", {kExamples, kFeatures});
    file.write_rows("train/features", 0, kExamples, small.data());
  } else {
    file.create<float>("train/features", {kExamples, kFeatures});
    file.write_rows("train/features", 0, kExamples, values.data());
  }
  file.write("train/labels", labels);
  file.write("train/weights", weights);
  file.write_attribute("", "classes", std::int64_t{2});
  DataSettings settings;
  settings.path = path;
  settings.normalization = NormalizationKind::none;
  return settings;
}

/// Everything that the parts' batches hold, and where the features lie.
struct Seen {
  std::vector<float> features, weights;
  std::vector<std::int32_t> labels;
  std::vector<const float*> places;
  std::vector<Index> sizes;
};

Seen pass(Dataset& set, int parts, Index batch_size, const std::vector<float>& class_weights = {}) {
  Seen seen;
  for (int part = 0; part < parts; ++part) {
    const auto source = set.training_part(part, parts, batch_size, class_weights);
    std::int64_t examples = 0;
    while (const auto batch = source->next()) {
      seen.features.insert(seen.features.end(), batch->features.begin(), batch->features.end());
      seen.labels.insert(seen.labels.end(), batch->labels.begin(), batch->labels.end());
      seen.weights.insert(seen.weights.end(), batch->weights.begin(), batch->weights.end());
      seen.places.push_back(batch->features.data());
      seen.sizes.push_back(batch->size);
      examples += batch->size;
      CHECK(batch->last_of_epoch == (source->first() + examples == source->last()));
    }
    CHECK(examples == source->last() - source->first());
  }
  return seen;
}

}  // namespace

TEST_CASE("a part of a table of floats is not copied", "[training-part]") {
  const test::TempDir folder;
  const auto set = open_dataset(write_table(folder / "set.h5", /*bytes=*/false), 1);
  const Seen seen = pass(*set, 3, 25);
  CHECK(seen.sizes == std::vector<Index>{25, 25, 16, 25, 25, 17, 25, 25, 17});
  for (std::size_t i = 0; i < seen.features.size(); ++i) REQUIRE(seen.features[i] == static_cast<float>(i));
  for (std::size_t i = 0; i < seen.labels.size(); ++i) REQUIRE(seen.labels[i] == static_cast<std::int32_t>(i % 2));
  for (std::size_t i = 0; i < seen.weights.size(); ++i) REQUIRE(seen.weights[i] == 1 + static_cast<float>(i));
  for (std::size_t b = 1; b < seen.places.size(); ++b) {
    CHECK(seen.places[b] == seen.places[b - 1] + seen.sizes[b - 1] * kFeatures);
  }
  CHECK(pass(*set, 3, 25).places == seen.places);
  CHECK(seen.features.size() == kExamples * kFeatures);
  const Seen weighted = pass(*set, 3, 25, {1, 0.5F});
  for (std::size_t i = 0; i < weighted.weights.size(); ++i) {
    REQUIRE(weighted.weights[i] == (1 + static_cast<float>(i)) * (i % 2 == 0 ? 1.0F : 0.5F));
  }
}

TEST_CASE("a part whose features must be converted gives what a streamed part gives", "[training-part]") {
  const test::TempDir folder;
  for (const bool bytes : {true, false}) {
    DataSettings settings = write_table(folder / (bytes ? "bytes.h5" : "floats.h5"), bytes);
    settings.normalization = NormalizationKind::feature;
    const auto resident = open_dataset(settings, 1);
    settings.reader = Reader::streaming;
    const auto streamed = open_dataset(settings, 1);
    for (const Index batch_size : {7, 1000, 25}) {
      const Seen seen = pass(*resident, 3, batch_size, {1, 0.5F}), expected = pass(*streamed, 3, batch_size, {1, 0.5F});
      CHECK(seen.features == expected.features);
      CHECK(seen.labels == expected.labels);
      CHECK(seen.weights == expected.weights);
      CHECK(seen.sizes == expected.sizes);
    }
    // The memory of one pass is used again in the next, unless that one is not over.
    const auto one = resident->training_part(0, 2, 1000, {}), other = resident->training_part(1, 2, 1000, {});
    const Batch first = *one->next();
    const std::vector<float> before(first.features.begin(), first.features.end());
    CHECK(other->next()->features.data() != first.features.data());
    CHECK(std::ranges::equal(before, first.features));
  }
}

TEST_CASE("a part without the rows that were held out has the rows that were not", "[training-part]") {
  const test::TempDir folder;
  for (const bool stratify : {true, false}) {  // rows one by one, or in blocks
    DataSettings settings = write_table(folder / "set.h5", /*bytes=*/false);
    settings.validation_fraction = 0.2;
    settings.stratify = stratify;
    const auto resident = open_dataset(settings, 1);
    settings.reader = Reader::streaming;
    const auto streamed = open_dataset(settings, 1);
    const Seen seen = pass(*resident, 3, 25), expected = pass(*streamed, 3, 25);
    CHECK(seen.features == expected.features);
    CHECK(seen.labels == expected.labels);
    CHECK(seen.weights == expected.weights);
  }
}

}  // namespace unisono::data
