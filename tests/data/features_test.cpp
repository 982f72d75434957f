// What happens to an example's features on their way into a batch: conversion, normalisation, augmentation.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <value_of.hpp>

#include "dense/feature_writer.hpp"
#include "dense/rows.hpp"
#include "sets.hpp"
#include "unisono/base/denormals.hpp"

using namespace unisono::data;
using unisono::test::TempDir;

namespace {

unisono::data::GroupSchema group_of(unisono::data::FeatureShape shape, unisono::Storage storage) {
  unisono::data::GroupSchema group;
  group.name = "train";
  group.features = shape;
  group.storage = storage;
  return group;
}

template <typename T>
const std::byte* bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

/// The value of binary16 bits, from its definition (IEEE 754-2008, 3.4).
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every finite binary16 number is converted exactly", "[features]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7C00) == 0x7C00) continue;
    const auto half = static_cast<std::uint16_t>(bits);
    wrong += static_cast<double>(unisono::data::to_float(unisono::data::hdf5::Half{half})) != half_value(half) ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(std::signbit(unisono::data::to_float(unisono::data::hdf5::Half{0x8000})));
}

TEST_CASE("infinite binary16 numbers and NaN stay what they are where they may come", "[features]") {
  using unisono::data::to_any_float;
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  CHECK(to_any_float({0x7C00}) == kInfinite);
  CHECK(to_any_float({0xFC00}) == -kInfinite);
  CHECK((std::isnan(to_any_float({0x7C01})) && std::isnan(to_any_float({0xFE00}))));
  CHECK((to_any_float({0x3E00}) == 1.5F && to_any_float({0x7BFF}) == 65504));
}

TEST_CASE("stored values become a · x + b", "[features]") {
  std::vector<float> out(3);
  unisono::data::convert(unisono::Storage::uint8, bytes(std::vector<std::uint8_t>{0, 10, 255}), 3, 0.5F, 1, out.data());
  CHECK(out == std::vector<float>{1, 6, 128.5});
  unisono::data::convert(unisono::Storage::float16,
                         bytes(std::vector<unisono::data::hdf5::Half>{{0x3C00}, {0xC000}, {0x3800}}), 3, 2, 0,
                         out.data());
  CHECK(out == std::vector<float>{2, -4, 1});
}

TEST_CASE("the mean is subtracted before anything is rounded to its size", "[features]") {
  unisono::data::GroupSchema group = group_of({1, 1, 1}, unisono::Storage::float32);
  const unisono::data::FeatureWriter writer(group, {{1000002.5F}, {0.5F}});
  float out = 0;
  writer.write(bytes(std::vector<float>{1000003.25F}), &out);
  CHECK(out == 0.375F);  // 0.5 · 1000003.25 − 500001.25 is 0.34375 or 0.375 in float32
}

TEST_CASE("all finite binary16 numbers become floats, where denormal floats are flushed, too", "[features]") {
  const unisono::FlushDenormals flush;
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const int exponent = static_cast<int>(bits >> 10U & 31U), mantissa = static_cast<int>(bits & 0x3FFU);
    if (exponent == 31) continue;
    const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                          : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    const float found = unisono::data::to_float(unisono::data::hdf5::Half{static_cast<std::uint16_t>(bits)});
    if (found != (bits < 0x8000U ? magnitude : -magnitude)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("features are normalised with one number, one a channel, or one a feature", "[features]") {
  unisono::data::GroupSchema group = group_of({2, 1, 2}, unisono::Storage::uint8);
  group.scale = 0.5;
  group.offset = 1;
  const std::vector<std::uint8_t> stored = {0, 2, 4, 6};  // 1, 2 | 3, 4
  const auto write = [&](const unisono::data::Normalization& normalization) {
    std::vector<float> out(4), still(4);
    unisono::data::FeatureWriter writer(group, normalization);
    writer.write(bytes(stored), out.data());
    writer.write_moved(bytes(stored), {}, still.data());
    CHECK(still == out);
    return out;
  };
  CHECK(write({}) == std::vector<float>{1, 2, 3, 4});
  CHECK(write({{1}, {2}}) == std::vector<float>{0, 2, 4, 6});
  CHECK(write({{1, 3}, {2, 4}}) == std::vector<float>{0, 2, 0, 4});
  CHECK(write({{1, 1, 1, 1}, {1, 2, 3, 4}}) == std::vector<float>{0, 2, 6, 12});
}

TEST_CASE("what comes into a moved image from outside is black before normalisation", "[features]") {
  unisono::data::GroupSchema group = group_of({1, 1, 3}, unisono::Storage::uint8);
  unisono::data::FeatureWriter writer(group, {{10}, {0.5}});
  std::vector<float> out(3);
  writer.write_moved(bytes(std::vector<std::uint8_t>{12, 14, 16}), {0, 1, false}, out.data());
  CHECK(out == std::vector<float>{2, 3, -5});
}

TEST_CASE("images are moved and flipped as they say", "[augmentation]") {
  const std::vector<float> image = {1, 2, 3, 4, 5, 6};  // 2 × 3
  const auto moved = [&](const unisono::Movement& movement) {
    std::vector<float> out(6);
    unisono::data::move_image({1, 2, 3}, movement, image.data(), out.data());
    return out;
  };
  CHECK(moved({}) == image);
  CHECK(moved({0, 1, false}) == std::vector<float>{2, 3, 0, 5, 6, 0});
  CHECK(moved({0, -1, false}) == std::vector<float>{0, 1, 2, 0, 4, 5});
  CHECK(moved({1, 0, false}) == std::vector<float>{4, 5, 6, 0, 0, 0});
  CHECK(moved({-1, 0, false}) == std::vector<float>{0, 0, 0, 1, 2, 3});
  CHECK(moved({0, 0, true}) == std::vector<float>{3, 2, 1, 6, 5, 4});
  CHECK(moved({0, 1, true}) == std::vector<float>{0, 3, 2, 0, 6, 5});
  CHECK(moved({0, 7, false}) == std::vector<float>(6));
  CHECK(moved({-9, -7, true}) == std::vector<float>(6));
  std::vector<float> two(12);
  std::vector<float> channels = image;
  channels.insert(channels.end(), image.rbegin(), image.rend());
  unisono::data::move_image({2, 2, 3}, {0, 1, false}, channels.data(), two.data());
  CHECK(two == std::vector<float>{2, 3, 0, 5, 6, 0, 5, 4, 0, 2, 1, 0});
}

TEST_CASE("movements are within their bounds, all of them occur, and depend on seed, epoch and example alone",
          "[augmentation]") {
  unisono::data::AugmentationSettings settings;
  settings.crop_padding = 1;
  settings.horizontal_flip = true;
  std::map<std::tuple<unisono::Index, unisono::Index, bool>, int> seen;
  constexpr int n = 9000;
  for (int example = 0; example < n; ++example) {
    const unisono::Movement m = unisono::data::draw_movement(settings, 1, 3, static_cast<std::uint64_t>(example));
    ++seen[{m.down, m.right, m.flipped}];
    CHECK((std::abs(m.down) <= 1 && std::abs(m.right) <= 1));
  }
  CHECK(seen.size() == 18);
  // Each of 18 has the probability p = 1/18: mean 500, deviation √(n p (1 − p)) = 21.7; six deviations are allowed.
  for (const auto& [movement, count] : seen) CHECK(std::abs(count - 500) < 130);

  const auto same = [&](std::uint64_t seed, std::int64_t epoch, std::uint64_t first) {
    int equal = 0;
    for (std::uint64_t i = 0; i < 50; ++i) {
      const unisono::Movement a = unisono::data::draw_movement(settings, 1, 3, i),
                              b = unisono::data::draw_movement(settings, seed, epoch, first + i);
      equal += a.down == b.down && a.right == b.right && a.flipped == b.flipped ? 1 : 0;
    }
    return equal;
  };
  CHECK(same(1, 3, 0) == 50);
  CHECK(same(2, 3, 0) < 25);
  CHECK(same(1, 4, 0) < 25);
  CHECK(same(1, 3, 50) < 25);
  CHECK_FALSE(unisono::data::has_effect({}));
}

TEST_CASE("statistics of pieces are those of the whole", "[statistics]") {
  // Values 1e6 + {0, 1, 2, …}: squares of 1e12 would cost a plain sum in float all its digits.
  const unisono::data::FeatureShape shape{2, 1, 2};
  const unisono::data::GroupSchema group = group_of(shape, unisono::Storage::float32);
  constexpr std::int64_t n = 10, pieces = 3;
  std::vector<float> data(n * 4);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(1000000 + (i % 4 == 3 ? 5 : i));
  const std::vector<float> shift(data.begin(), data.begin() + 4);
  std::vector<double> sums;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    unisono::data::FeatureSums one(group, shift);
    const unisono::data::Range rows = unisono::data::part_of(n, piece, pieces);
    for (std::int64_t row = rows.first; row < rows.last; ++row) one.add({.features = bytes(data) + row * 16});
    sums.insert(sums.end(), one.sums().begin(), one.sums().end());
  }
  const auto expected = [&](const std::vector<std::size_t>& features) {
    double mean = 0, variance = 0;
    for (std::int64_t row = 0; row < n; ++row) {
      for (const std::size_t f : features) mean += data[static_cast<std::size_t>(row) * 4 + f];
    }
    mean /= static_cast<double>(n * static_cast<std::int64_t>(features.size()));
    for (std::int64_t row = 0; row < n; ++row) {
      for (const std::size_t f : features) variance += std::pow(data[static_cast<std::size_t>(row) * 4 + f] - mean, 2);
    }
    return std::pair(mean, std::sqrt(variance / static_cast<double>(n * static_cast<std::int64_t>(features.size()))));
  };
  const auto check = [&](const std::string& kind, const std::vector<std::vector<std::size_t>>& parts) {
    const unisono::data::Normalization result = unisono::data::make_normalization(
        unisono::value_of(kind, unisono::data::kNormalizations), group, n, shift, sums);
    REQUIRE(result.mean.size() == parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto [mean, deviation] = expected(parts[i]);
      CHECK(result.mean[i] == static_cast<float>(mean));
      // Exact sums of small integers in double; the result is rounded to float once.
      CHECK(result.scale[i] == Approx(deviation > 0 ? 1 / deviation : 1).epsilon(1e-7));
    }
  };
  check("global", {{0, 1, 2, 3}});
  check("channel", {{0, 1}, {2, 3}});
  check("feature", {{0}, {1}, {2}, {3}});  // the last never varies
  CHECK(unisono::data::statistics_pieces(group, 10) == 10);
  CHECK(unisono::data::statistics_pieces(group, 1000) == 64);
  CHECK(unisono::data::statistics_pieces(group_of({1, 4096, 4096}, unisono::Storage::uint8), 1000) == 1);
}

TEST_CASE("a normalised set has mean 0 and deviation 1, by the training examples alone", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set<std::uint8_t>(folder / "a.h5", {.train = 60, .test = 10, .shape = {4}});
  settings.normalization = GENERATE(unisono::data::NormalizationKind::global, unisono::data::NormalizationKind::channel,
                                    unisono::data::NormalizationKind::feature);
  settings.reader = GENERATE(unisono::data::Reader::resident, unisono::data::Reader::streaming);
  settings.partition = GENERATE(unisono::data::Partition::global, unisono::data::Partition::fixed);
  settings.validation_fraction = GENERATE(0.0, 0.25);
  const auto set = unisono::data::open_dataset(settings, 1);
  const auto source = set->train({.batch_size = set->info().train});
  const unisono::data::Batch batch = source->next();
  REQUIRE(batch.size == set->info().train);
  double sum = 0, squares = 0;
  for (const float x : batch.features) {
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<double>(batch.features.size());
  CHECK(sum / count == Approx(0).margin(1e-6));
  CHECK(squares / count == Approx(1).epsilon(1e-5));
}

TEST_CASE("augmentation is the same on any number of ranks, and evaluation knows none of it", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set<std::uint8_t>(folder / "a.h5", {.train = 12, .test = 3, .shape = {3, 4}});
  settings.augmentation.shift = 2;
  settings.augmentation.horizontal_flip = true;
  const auto set = unisono::data::open_dataset(settings, 1);
  const auto images = [&](int ranks) {
    std::map<std::uint64_t, std::vector<float>> by_example;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto source = set->train({.rank = rank, .size = ranks, .batch_size = 12, .seed = 2});
      source->seek({1, 0});
      const unisono::data::Batch batch = source->next();
      for (std::size_t i = 0; i < batch.examples.size(); ++i) {
        const auto image = batch.features.subspan(i * 12, 12);
        by_example[batch.examples[i]] = {image.begin(), image.end()};
      }
    }
    return by_example;
  };
  const auto serial = images(1);
  CHECK(serial.size() == 12);
  CHECK(images(3) == serial);
  int moved = 0;
  for (const auto& [example, image] : serial) moved += image[5] != static_cast<float>(example * 12 + 5) ? 1 : 0;
  CHECK(moved > 6);  // of 12; one image in 50 stays as it is
  const auto test = set->evaluate(unisono::data::Split::test, 0, 1, 3);
  const auto batch = test->next();
  for (std::size_t i = 0; i < 36; ++i) CHECK(batch->features[i] == static_cast<float>(i));
}

TEST_CASE("an autoencoder's target is its input, as augmented and normalised", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.train = 8, .shape = {2, 2}, .classes = 0});
  settings.targets = unisono::data::Targets::features;
  settings.normalization = unisono::data::NormalizationKind::global;
  settings.augmentation.horizontal_flip = true;
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK(set->info().target_size == 4);
  CHECK(set->info().classes == 0);
  const auto source = set->train({.batch_size = 8});
  const unisono::data::Batch batch = source->next();
  CHECK(batch.labels.empty());
  CHECK(std::ranges::equal(batch.targets, batch.features));
  CHECK(batch.targets.size() == 32);
}

namespace {

/// A device that would keep all that it is offered.
class Keeper final : public unisono::KeptFeatures {
 public:
  void load(std::span<const std::uint64_t>, std::span<const unisono::Movement>, unisono::MutableView) override {}
  unisono::data::Delivery delivery() {
    return {.keep = [this](const unisono::StoredFeatures& features) {
      offered.push_back(features);
      return accepts ? this : nullptr;
    }};
  }

  bool accepts = true;
  std::vector<unisono::StoredFeatures> offered;
};

}  // namespace

TEST_CASE("a device that keeps a resident set is given numbers and movements of examples", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set<std::uint8_t>(folder / "a.h5", {.train = 12, .test = 3, .shape = {3, 4}});
  settings.augmentation.shift = 2;
  settings.normalization = unisono::data::NormalizationKind::global;
  const auto set = unisono::data::open_dataset(settings, 1);
  Keeper device;
  const auto source = set->train({.batch_size = 5, .seed = 2, .delivery = device.delivery()});
  REQUIRE(device.offered.size() == 1);
  const unisono::StoredFeatures& rows = device.offered.front();
  CHECK(rows.count == 12);
  CHECK(rows.first == 0);
  CHECK(rows.bytes() == 12 * 12);
  for (std::size_t i = 0; i < 144; ++i) CHECK(std::to_integer<std::size_t>(rows.rows[i]) == i);
  for (int step = 0; step < 4; ++step) {
    const unisono::data::Batch batch = source->next();
    CHECK(batch.kept == &device);
    CHECK(batch.features.empty());
    REQUIRE(std::ssize(batch.examples) == batch.size);
    REQUIRE(batch.labels.size() == batch.examples.size());
    REQUIRE(batch.movements.size() == batch.examples.size());
    for (std::size_t i = 0; i < batch.examples.size(); ++i) {
      const unisono::Movement expected =
          unisono::data::draw_movement(settings.augmentation, 2, batch.epoch, batch.examples[i]);
      CHECK(batch.movements[i].down == expected.down);
      CHECK(batch.movements[i].right == expected.right);
    }
  }
  const auto test = set->evaluate(unisono::data::Split::test, 0, 1, 2, device.delivery());
  CHECK(device.offered.back().count == 3);
  const auto batch = test->next();
  CHECK(batch->kept == &device);
  CHECK(batch->movements.empty());
  CHECK(std::ranges::equal(batch->examples, std::vector<std::uint64_t>{0, 1}));
}

TEST_CASE("batches have features where a device declines, or is not asked", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set<std::uint8_t>(folder / "a.h5", {.train = 12, .shape = {3, 4}});
  Keeper device;
  SECTION("it declines") { device.accepts = false; }
  SECTION("the set is streamed") { settings.reader = unisono::data::Reader::streaming; }
  SECTION("examples are mixed") { settings.augmentation.mixup = 1; }
  SECTION("the features are targets, too") { settings.targets = unisono::data::Targets::features; }
  const auto set = unisono::data::open_dataset(settings, 1);
  const auto source = set->train({.batch_size = 5, .delivery = device.delivery()});
  CHECK(device.offered.size() == (device.accepts ? 0 : 1));
  const unisono::data::Batch batch = source->next();
  CHECK(batch.kept == nullptr);
  CHECK(batch.features.size() == 5 * 12);
  CHECK(batch.movements.empty());
}

TEST_CASE("a rank's fixed part is all that its device keeps", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set<std::uint8_t>(folder / "a.h5", {.train = 10, .shape = {3, 4}});
  settings.partition = unisono::data::Partition::fixed;
  const auto set = unisono::data::open_dataset(settings, 1);
  Keeper device;
  const auto source = set->train({.rank = 1, .size = 2, .batch_size = 4, .delivery = device.delivery()});
  REQUIRE(device.offered.size() == 1);
  CHECK(device.offered.front().first == 5);
  CHECK(device.offered.front().count == 5);
  CHECK(std::to_integer<int>(*device.offered.front().rows) == 5 * 12);
  CHECK(source->next().kept == &device);
}

TEST_CASE("targets of any number come with their examples", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = folder / "a.h5";
  settings.reader = GENERATE(unisono::data::Reader::resident, unisono::data::Reader::streaming);
  {
    unisono::data::hdf5::File file(settings.path, unisono::data::hdf5::File::Mode::create);
    std::vector<double> features(20), targets(40);
    for (std::size_t i = 0; i < 20; ++i) features[i] = targets[2 * i] = static_cast<double>(i);
    file.create<double>("train/features", {20});
    file.write_rows("train/features", 0, 20, features.data());
    file.create<double>("train/targets", {20, 2});
    file.write_rows("train/targets", 0, 20, targets.data());
  }
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK(set->info().target_size == 2);
  const auto source = set->train({.batch_size = 20, .seed = 3});
  const unisono::data::Batch batch = source->next();
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(batch.features[i] == static_cast<float>(batch.examples[i]));
    CHECK(batch.targets[2 * i] == batch.features[i]);
    CHECK(batch.targets[2 * i + 1] == 0);
  }
}
