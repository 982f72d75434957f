// Compiled in place of codecs/ where libjpeg or libspng is not found.
#include "images/picture.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr const char* kAbsent =
    "pictures need libjpeg and libspng, and this unisono was built without them; install libjpeg62-turbo-dev and "
    "libspng-dev, and build again";

}  // namespace

int decode_jpeg(std::span<const std::uint8_t>, const std::string& name, const DecodingRequest&, PicturePart&) {
  fail_picture(name, kAbsent);
}
int decode_png(std::span<const std::uint8_t>, const std::string& name, const DecodingRequest&, PicturePart&) {
  fail_picture(name, kAbsent);
}
void check_jpeg(std::span<const std::uint8_t>, const std::string& name) { fail_picture(name, kAbsent); }
void check_png(std::span<const std::uint8_t>, const std::string& name) { fail_picture(name, kAbsent); }
DecodingBytes jpeg_decoding_bytes(std::span<const std::uint8_t>, const ImageForm&) { return {}; }
DecodingBytes png_decoding_bytes(std::span<const std::uint8_t>) { return {}; }

}  // namespace unisono::data
