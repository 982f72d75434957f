// JPEG by libjpeg(-turbo).
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "images/picture.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr unsigned kLongestMarker = 0xFFFF;

/// What libjpeg calls; it jumps back to `jump` where it cannot go on.
struct Errors {
  jpeg_error_mgr own;  // first: libjpeg knows nothing of the rest
  std::jmp_buf jump;
  bool damaged;  ///< whether bytes were missing or meaningless, for which libjpeg puts grey in
};

Errors& errors_of(j_common_ptr decoder) { return *reinterpret_cast<Errors*>(decoder->err); }

[[noreturn]] void give_up(j_common_ptr decoder) { std::longjmp(errors_of(decoder).jump, 1); }

/// Warnings about bytes that are no part of the picture change nothing.
void note(j_common_ptr decoder, int level) {
  constexpr std::array kDamages = {JWRN_JPEG_EOF, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_ARITH_BAD_CODE,
                                   JWRN_BOGUS_PROGRESSION};
  Errors& errors = errors_of(decoder);
  if (level < 0 && std::ranges::count(kDamages, errors.own.msg_code) > 0 && !errors.damaged) {
    errors.damaged = true;
    give_up(decoder);
  }
}

/// libjpeg jumps over the frames between it and these functions, in which nothing may therefore need a destructor.
class Decoder {
 public:
  explicit Decoder(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
    decoder_.err = jpeg_std_error(&errors_.own);
    errors_.own.error_exit = give_up;
    errors_.own.emit_message = note;
  }
  ~Decoder() { jpeg_destroy_decompress(&decoder_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  bool read_header() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&decoder_);
    jpeg_mem_src(&decoder_, bytes_.data(), bytes_.size());
    jpeg_save_markers(&decoder_, JPEG_APP0 + 1, kLongestMarker);
    jpeg_read_header(&decoder_, TRUE);
    return true;
  }

  /// After the header, settles what is decoded to; then width, height and channels are known.
  bool begin(J_COLOR_SPACE colours, unsigned denominator) {
    if (setjmp(errors_.jump) != 0) return false;
    decoder_.out_color_space = colours;
    decoder_.scale_num = 1;
    decoder_.scale_denom = denominator;
    jpeg_start_decompress(&decoder_);
    return true;
  }

  bool read(std::uint8_t* values) {
    if (setjmp(errors_.jump) != 0) return false;
    const std::size_t row = std::size_t{decoder_.output_width} * static_cast<std::size_t>(decoder_.output_components);
    while (decoder_.output_scanline < decoder_.output_height) {
      JSAMPROW next = values + row * decoder_.output_scanline;
      jpeg_read_scanlines(&decoder_, &next, 1);
    }
    jpeg_finish_decompress(&decoder_);
    return true;
  }

  const jpeg_decompress_struct& state() const { return decoder_; }

  /// What libjpeg said last.
  std::string message() {
    std::array<char, JMSG_LENGTH_MAX> text{};
    errors_.own.format_message(reinterpret_cast<j_common_ptr>(&decoder_), text.data());
    return text.data();
  }

 private:
  std::span<const std::uint8_t> bytes_;
  Errors errors_{};
  jpeg_decompress_struct decoder_{};
};

int orientation_of(const jpeg_decompress_struct& decoder) {
  for (const jpeg_marker_struct* marker = decoder.marker_list; marker != nullptr; marker = marker->next) {
    const std::span data(marker->data, marker->data_length);
    if (data.size() > kExif.size() && std::memcmp(data.data(), kExif.data(), kExif.size()) == 0) {
      return exif_orientation(data.subspan(kExif.size()));
    }
  }
  return 1;
}

/// The largest part of its size that still has twice the pixels each way that are needed.
unsigned denominator_for(const jpeg_decompress_struct& decoder, const ImageForm& size, int orientation) {
  const bool lies = orientation >= 5;
  const std::int64_t width = 2 * (lies ? size.height : size.width), height = 2 * (lies ? size.width : size.height);
  for (const unsigned denominator : {8U, 4U, 2U}) {
    if (decoder.image_width / denominator >= width && decoder.image_height / denominator >= height) return denominator;
  }
  return 1;
}

/// Ink on white paper to light. Adobe's programs store how much of the ink is left out.
void to_rgb(Picture& picture, bool inverted) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(picture.values.size() / 4 * 3);
  for (std::size_t i = 0; i < picture.values.size(); i += 4) {
    const auto left_out = [&](std::size_t ink) {
      const std::uint32_t value = picture.values[i + ink];
      return inverted ? value : 255 - value;
    };
    for (std::size_t ink = 0; ink < 3; ++ink) {
      rgb.push_back(static_cast<std::uint8_t>((left_out(ink) * left_out(3) + 127) / 255));
    }
  }
  picture.values = std::move(rgb);
  picture.channels = 3;
}

void to_grey(Picture& picture) {
  std::vector<std::uint8_t> grey;
  grey.reserve(picture.values.size() / 3);
  for (std::size_t i = 0; i < picture.values.size(); i += 3) {
    grey.push_back(brightness(picture.values[i], picture.values[i + 1], picture.values[i + 2]));
  }
  picture.values = std::move(grey);
  picture.channels = 1;
}

}  // namespace

Picture decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& size,
                    int& orientation) {
  Decoder decoder(bytes);
  const auto require = [&](bool done) {
    if (!done) fail_picture(name, "is a damaged JPEG file: " + decoder.message());
  };
  require(decoder.read_header());
  const jpeg_decompress_struct& state = decoder.state();
  require_pixels(name, state.image_width, state.image_height);
  orientation = orientation_of(state);
  const bool ink = state.jpeg_color_space == JCS_CMYK || state.jpeg_color_space == JCS_YCCK;
  const bool is_grey = size.colours == Colours::grey;
  require(decoder.begin(ink ? JCS_CMYK : is_grey ? JCS_GRAYSCALE : JCS_RGB, denominator_for(state, size, orientation)));
  Picture picture{.height = state.output_height, .width = state.output_width, .channels = state.output_components};
  picture.values.resize(static_cast<std::size_t>(picture.height * picture.width * picture.channels));
  require(decoder.read(picture.values.data()));
  if (ink) {
    to_rgb(picture, state.saw_Adobe_marker != FALSE);
    if (is_grey) to_grey(picture);
  }
  return picture;
}

}  // namespace unisono::data
