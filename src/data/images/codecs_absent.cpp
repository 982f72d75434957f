// Compiled in place of codecs/ where libjpeg or libspng is not found.
#include "images/picture.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr const char* kAbsent =
    "pictures need libjpeg and libspng, and this unisono was built without them; install libjpeg62-turbo-dev and "
    "libspng-dev, and build again";

}  // namespace

Picture decode_jpeg(std::span<const std::uint8_t>, const std::string& name, const ImageForm&, int&) {
  fail_picture(name, kAbsent);
}

Picture decode_png(std::span<const std::uint8_t>, const std::string& name, Colours, int&) {
  fail_picture(name, kAbsent);
}

}  // namespace unisono::data
