#include "vectors/formats.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "scratch_folder.hpp"

namespace unisono::apply {
namespace {

TEST_CASE("an .npy header says its shape, and its length is a multiple of 64", "[npz]") {
  const std::string header = npy_header({3});
  CHECK(header.size() % 64 == 0);
  CHECK(header.find("'shape': (3,)") != std::string::npos);
  CHECK(npy_header({2, 3, 4}).find("'shape': (2, 3, 4)") != std::string::npos);
}

TEST_CASE("an .npz is a zip archive whose directory finds each array", "[npz]") {
  const testing::ScratchFolder folder;
  NewFile file(folder.path("a.npz"), Replace::nothing);
  NpzWriter npz(file);
  const std::vector<float> one = {1}, six = {1, 2, 3, 4, 5, 6};
  npz.add("dense1.bias", {1}, one);
  npz.add("dense1.weight", {2, 3}, six);
  npz.finish();
  file.finish();
  const std::string bytes = testing::bytes_of(folder.path("a.npz"));
  const std::string local = "PK\x03\x04", entry = "PK\x01\x02", end = "PK\x05\x06";
  CHECK(bytes.starts_with(local));
  const std::size_t directory = bytes.find(entry), last = bytes.find(end);
  REQUIRE(last == bytes.size() - 22);
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = (value << 8U) + static_cast<unsigned char>(bytes[at + i]);
    return value;
  };
  CHECK(number(last + 16) == directory);
  const std::size_t second = bytes.find(entry, directory + 4);
  CHECK(bytes.substr(number(second + 42), 4) == local);
  CHECK(bytes.substr(second + 46, 17) == "dense1.weight.npy");
}

}  // namespace
}  // namespace unisono::apply
