// The decoders of pictures on any bytes: a picture as large as its values and an image of the form that is asked for,
// or a DataError.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "images/picture_reader.hpp"
#include "unisono/base/errors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unisono::data;
  const std::span bytes(data, size);
  const int orientation = exif_orientation(bytes);
  if (orientation < 1 || orientation > 8) std::abort();
  // The last byte chooses the form, so that one file is decoded in each way.
  const std::uint8_t choice = bytes.empty() ? 0 : bytes.back();
  const ImageForm form{.height = 1 + choice % 7,
                       .width = 1 + choice % 5,
                       .fit = kFits[choice % 3].value,
                       .colours = kColours[choice % 2].value};
  std::vector<std::uint8_t> image(static_cast<std::size_t>(form.bytes()));
  try {
    check_picture(bytes, "fuzzed");
  } catch (const unisono::DataError&) {
  }
  PictureReader reader;
  try {
    reader.read(bytes, "fuzzed", form, /*to_the_end=*/true, image);
    const auto some = [&](std::int64_t height, std::int64_t width) {
      const double rows = 1 + static_cast<double>(choice % height), columns = 1 + static_cast<double>(choice % width);
      return Box{.left = static_cast<double>(width) - columns, .top = 0, .width = columns, .height = rows};
    };
    reader.read(bytes, "fuzzed", form, some, image);
  } catch (const unisono::DataError&) {
  }
  return 0;
}
