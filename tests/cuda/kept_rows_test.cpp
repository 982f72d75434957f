// Inputs that the device makes of the rows that it keeps, against those that the CPU writes into a batch.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "dense/feature_writer.hpp"
#include "unisono/base/random.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono {
namespace {

using data::FeatureWriter;
using data::GroupSchema;

constexpr std::uint64_t kFirst = 40;  // of the rows, in the set
constexpr Index kRows = 9;

GroupSchema group_of(const data::FeatureShape& shape, Storage storage) {
  GroupSchema group;
  group.name = "train";
  group.features = shape;
  group.storage = storage;
  group.scale = 0.37F;
  group.offset = -1.3F;
  return group;
}

/// Stored numbers of any bits that are finite.
std::vector<std::byte> random_rows(const GroupSchema& group) {
  RandomStream random(3, Purpose::test);
  const auto count = static_cast<std::size_t>(kRows * group.features.size());
  std::vector<std::byte> rows(count * size_of(group.storage));
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const at = rows.data() + i * size_of(group.storage);
    const auto bits = static_cast<std::uint16_t>(random.below(0x7C00) | random.below(2) << 15);
    const float number = random.uniform(-3, 3);
    if (group.storage == Storage::float32) {
      std::memcpy(at, &number, sizeof number);
    } else {
      std::memcpy(at, &bits, size_of(group.storage));
    }
  }
  return rows;
}

std::vector<float> random_numbers(Index count, float low, float high, std::uint64_t stream) {
  RandomStream random(4, Purpose::test, stream);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = random.uniform(low, high);
  return numbers;
}

data::Normalization normalization_of(Index numbers) {
  if (numbers == 0) return {};
  return {random_numbers(numbers, -2, 2, 0), random_numbers(numbers, 0.1F, 3, 1)};
}

/// Examples in any order, one of them twice.
const std::vector<std::uint64_t> kExamples = {kFirst + 3, kFirst, kFirst + 8, kFirst + 3, kFirst + 5};

std::vector<Movement> movements() {
  return {{0, 0, false}, {-1, 2, false}, {1, -1, true}, {3, 3, true}, {-100'000, 7, false}};
}

std::vector<float> written(const GroupSchema& group, FeatureWriter& writer, const std::vector<std::byte>& rows,
                           const std::vector<Movement>& moves) {
  const auto size = static_cast<std::size_t>(group.features.size());
  std::vector<float> values(kExamples.size() * size);
  for (std::size_t i = 0; i < kExamples.size(); ++i) {
    const std::byte* const row = rows.data() + (kExamples[i] - kFirst) * size * size_of(group.storage);
    float* const out = values.data() + i * size;
    if (moves.empty()) {
      writer.write(row, out);
    } else {
      writer.write_moved(row, moves[i], out);
    }
  }
  return values;
}

std::vector<float> loaded(kernels::Backend& backend, KeptFeatures& kept, const data::FeatureShape& shape,
                          const std::vector<Movement>& moves) {
  const kernels::Extent extent{shape.channels, shape.height, shape.width};
  const auto batch = static_cast<Index>(kExamples.size());
  Buffer x(backend.activation_size(extent, batch), backend.memory());
  std::vector<float> values(static_cast<std::size_t>(batch * extent.size()));
  kept.load(kExamples, moves, x.view());
  backend.store(extent, batch, x.view(), values);
  return values;
}

/// The nearest number of eight bits of mantissa; of two the even one.
float rounded_to_half(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

TEST_CASE("kept rows become the CPU's inputs, bit for bit", "[gpu]") {
  const auto precision = GENERATE(kernels::Precision::fp32, kernels::Precision::bf16);
  const auto storage = GENERATE(Storage::uint8, Storage::float16, Storage::float32);
  const auto shape = GENERATE(data::FeatureShape{1, 1, 1}, data::FeatureShape{3, 5, 7}, data::FeatureShape{17, 1, 1},
                              data::FeatureShape{1, 28, 28}, data::FeatureShape{2, 16, 17});
  const auto backend = kernels::make_cuda_backend(0, precision);
  const GroupSchema group = group_of(shape, storage);
  const std::vector<std::byte> rows = random_rows(group);
  for (const Index numbers : {Index{0}, Index{1}, shape.channels, shape.size()}) {
    FeatureWriter writer(group, normalization_of(numbers));
    KeptFeatures* const kept = backend->keep(writer.describe(rows.data(), kFirst, kRows));
    REQUIRE(kept != nullptr);
    for (const auto& moves : {std::vector<Movement>{}, movements()}) {
      INFO(fmt::format("{}x{}x{} normalised by {}, moved: {}, {}", shape.channels, shape.height, shape.width, numbers,
                       !moves.empty(), backend->description()));
      std::vector<float> expected = written(group, writer, rows, moves);
      if (precision == kernels::Precision::bf16) {
        for (float& value : expected) value = rounded_to_half(value);
      }
      for (int time = 1; time <= 5; ++time) CHECK(loaded(*backend, *kept, shape, moves) == expected);
    }
  }
}

TEST_CASE("the same rows are kept once, and others beside them", "[gpu]") {
  const auto backend = kernels::make_cuda_backend(0, kernels::Precision::fp32);
  const GroupSchema group = group_of({1, 2, 2}, Storage::float32);
  std::vector<std::byte> rows = random_rows(group);
  const FeatureWriter plain(group, {}), normalised(group, {{1}, {2}});
  KeptFeatures* const kept = backend->keep(plain.describe(rows.data(), kFirst, kRows));
  CHECK(backend->keep(plain.describe(rows.data(), kFirst, kRows)) == kept);
  CHECK(backend->keep(normalised.describe(rows.data(), kFirst, kRows)) != kept);
  CHECK(backend->keep(plain.describe(rows.data(), kFirst, kRows - 1)) != kept);
}

TEST_CASE("rows that would take more than a quarter of the free memory are not kept", "[gpu]") {
  const auto backend = kernels::make_cuda_backend(0, kernels::Precision::fp32);
  StoredFeatures features{.mean = {0}, .factor = {1}};
  features.count = Index{1} << 50;  // 4 PiB; nobody reads them
  CHECK(backend->keep(features) == nullptr);
}

}  // namespace
}  // namespace unisono
