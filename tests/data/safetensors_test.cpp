#include "unisono/data/safetensors.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

using Catch::Matchers::Contains;

/// A file with this header, and data.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

template <typename T>
std::string bytes_of_values(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

TEST_CASE("numbers of all types of floats are read from any place", "[safetensors]") {
  const test::TempDir folder;
  const std::string path = folder / "a.safetensors";
  const std::string header = R"({"d":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
                             R"("f":{"dtype":"F32","shape":[1,3],"data_offsets":[16,28]},)"
                             R"("h":{"dtype":"F16","shape":[2],"data_offsets":[28,32]},)"
                             R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[32,34]}} )";
  // 1.5 is 0x3E00 as binary16 and 0x3FC0 as bfloat16; 0x0001 is the smallest binary16, 2⁻²⁴.
  test::write_file(path, file_of(header, bytes_of_values<double>({0.25, -3}) + bytes_of_values<float>({1, 2, 3}) +
                                             bytes_of_values<std::uint16_t>({0x3E00, 0x0001, 0x3FC0})));
  const StoredTensors tensors = read_safetensors(path);
  const auto numbers = [&](const std::string& name, Index first, std::size_t count) {
    std::vector<float> values(count);
    read_tensor(name, tensors.at(name), first, values);
    return values;
  };
  CHECK(tensors.at("f").shape == std::vector<Index>{1, 3});
  CHECK(numbers("d", 0, 2) == std::vector<float>{0.25F, -3});
  CHECK(numbers("f", 1, 2) == std::vector<float>{2, 3});
  CHECK(numbers("h", 0, 2) == std::vector<float>{1.5F, 0x1p-24F});
  CHECK(numbers("b", 0, 1) == std::vector<float>{1.5F});
}

TEST_CASE("numbers that are not finite, or that float32 cannot hold, are refused", "[safetensors]") {
  const test::TempDir folder;
  const std::string path = folder / "a.safetensors";
  const auto refused = [&](const std::string& type, const std::string& bytes) {
    test::write_file(path, file_of(R"({"d":{"dtype":")" + type + R"(","shape":[1],"data_offsets":[0,)" +
                                       std::to_string(bytes.size()) + "]}}",
                                   bytes));
    const StoredTensors tensors = read_safetensors(path);
    std::vector<float> value(1);
    return test::message_of<DataError>([&] { read_tensor("d", tensors.at("d"), 0, value); });
  };
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr const char* kMessage = "tensor 'd' has numbers that are not finite (NaN, infinite or beyond float32)";
  for (const double number : {1e300, kInfinite, std::nan("")}) {
    CHECK_THAT(refused("F64", bytes_of_values<double>({number})), Contains(kMessage));
  }
  CHECK_THAT(refused("F32", bytes_of_values<float>({-std::numeric_limits<float>::infinity()})), Contains(kMessage));
  for (const std::uint16_t half : {0x7C00, 0xFC00, 0x7C01, 0xFE00}) {  // infinite, −infinite, NaN
    CHECK_THAT(refused("F16", bytes_of_values<std::uint16_t>({half})), Contains(kMessage));
  }
  for (const std::uint16_t upper : {0x7F80, 0xFF80, 0x7FC0}) {
    CHECK_THAT(refused("BF16", bytes_of_values<std::uint16_t>({upper})), Contains(kMessage));
  }
}

TEST_CASE("what is written begins at a multiple of eight bytes and is read again", "[safetensors]") {
  const test::TempDir folder;
  const std::string path = folder / "a.safetensors";
  const std::string header = safetensors_header({{"one \"a\"", {2, 3}}, {"two", {}}});
  CHECK(header.size() % 8 == 0);
  test::write_file(path, header + std::string(28, '\0'));
  const StoredTensors tensors = read_safetensors(path);
  CHECK(tensors.at("one \"a\"") ==
        StoredTensor{.file = path, .type = "F32", .shape = {2, 3}, .first_byte = header.size(), .name = "one \"a\""});
  CHECK(tensors.at("two") ==
        StoredTensor{.file = path, .type = "F32", .first_byte = header.size() + 24, .name = "two", .number = 1});
}

}  // namespace unisono::data
