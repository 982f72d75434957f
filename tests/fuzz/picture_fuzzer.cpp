// The decoders of pictures on any bytes: a picture as large as its values and an image of the form that is asked for,
// or a DataError.

#include <cstdint>
#include <cstdlib>

#include "images/picture.hpp"
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
  try {
    const Picture picture = decode_picture(bytes, "fuzzed", form);
    const auto values = static_cast<std::size_t>(picture.height * picture.width * picture.channels);
    if (values == 0 || picture.values.size() != values || picture.channels != form.channels()) std::abort();
    if (scaled(picture, form).size() != static_cast<std::size_t>(form.bytes())) std::abort();
  } catch (const unisono::DataError&) {
  }
  return 0;
}
