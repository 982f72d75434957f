#include <catch2/catch.hpp>

#include <numeric>

#include "pictures.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// [2, 3]: 0 1 2 / 3 4 5
Picture numbered() {
  Picture picture{.height = 2, .width = 3, .channels = 1, .values = std::vector<std::uint8_t>(6)};
  std::iota(picture.values.begin(), picture.values.end(), std::uint8_t{0});
  return picture;
}

TEST_CASE("pictures are turned upright", "[pictures]") {
  using Values = std::vector<std::uint8_t>;
  const std::array<Values, 8> expected = {{{0, 1, 2, 3, 4, 5},
                                           {2, 1, 0, 5, 4, 3},
                                           {5, 4, 3, 2, 1, 0},
                                           {3, 4, 5, 0, 1, 2},
                                           {0, 3, 1, 4, 2, 5},
                                           {3, 0, 4, 1, 5, 2},
                                           {5, 2, 4, 1, 3, 0},
                                           {2, 5, 1, 4, 0, 3}}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Picture turned = upright(numbered(), orientation);
    CHECK(turned.values == expected[static_cast<std::size_t>(orientation - 1)]);
    CHECK(turned.height == (orientation >= 5 ? 3 : 2));
  }
  CHECK(upright(numbered(), 9).values == numbered().values);
}

/// Exif data with one entry, in either byte order.
std::vector<std::uint8_t> exif(bool little, std::uint8_t orientation) {
  if (little) return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0};
  return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0};
}

TEST_CASE("Exif data say how a picture is turned, in both byte orders", "[pictures]") {
  for (const bool little : {true, false}) {
    CHECK(exif_orientation(exif(little, 6)) == 6);
    CHECK(exif_orientation(exif(little, 0)) == 1);
    CHECK(exif_orientation(exif(little, 9)) == 1);
    for (std::size_t bytes = 0; bytes < 20; ++bytes) {
      const auto whole = exif(little, 6);
      CHECK(exif_orientation(std::span(whole).first(bytes)) == 1);
    }
  }
}

TEST_CASE("pictures are scaled by means of the pixels around", "[pictures]") {
  const Picture picture{.height = 1, .width = 4, .channels = 1, .values = {0, 40, 80, 120}};
  CHECK(image_of(picture, {.height = 1, .width = 4, .fit = Fit::stretch, .colours = Colours::grey}) == picture.values);
  // Triangles of 4 pixels: 3, 3 and 1 of 7 parts.
  CHECK(image_of(picture, {.height = 1, .width = 2, .fit = Fit::stretch, .colours = Colours::grey}) ==
        std::vector<std::uint8_t>{29, 91});
  CHECK(image_of(picture, {.height = 2, .width = 2, .fit = Fit::pad, .colours = Colours::grey}) ==
        std::vector<std::uint8_t>{29, 91, 0, 0});
  CHECK(image_of(picture, {.height = 1, .width = 1, .fit = Fit::crop, .colours = Colours::grey}) ==
        std::vector<std::uint8_t>{60});
}

TEST_CASE("an image of no pixels or of too many is refused", "[pictures]") {
  CHECK_NOTHROW(require_size({.height = 1 << 13, .width = 1 << 11}));
  CHECK_THROWS_AS(require_size({.height = 0, .width = 3}), DataError);
  CHECK_THROWS_AS(require_size({.height = std::int64_t{1} << 40, .width = std::int64_t{1} << 40}), DataError);
}

TEST_CASE("other bytes are no picture", "[pictures]") {
  std::vector<std::uint8_t> image(3);
  const std::vector<std::uint8_t> text = {'t', 'e', 'x', 't'};
  CHECK_THROWS_WITH(PictureReader().read(text, "f", {.height = 1, .width = 1}, true, image),
                    Catch::Contains("f: is neither a JPEG nor a PNG file"));
  CHECK_THROWS_WITH(PictureReader().read({}, "f", {.height = 1, .width = 1}, true, image), "f: is empty");
}

}  // namespace
}  // namespace unisono::data
