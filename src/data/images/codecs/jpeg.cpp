// JPEG by libjpeg(-turbo).
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "images/picture.hpp"
#include "images/resample.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr unsigned kLongestMarker = 0xFFFF;
constexpr const char* kDamaged = "is a damaged JPEG file: ";

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

  /// After the header, settles what is decoded to; then the size of the whole, and the channels are known.
  bool begin(J_COLOR_SPACE colours, unsigned denominator) {
    if (setjmp(errors_.jump) != 0) return false;
    decoder_.out_color_space = colours;
    decoder_.scale_num = 1;
    decoder_.scale_denom = denominator;
    jpeg_start_decompress(&decoder_);
    return true;
  }

  /// Leaves out columns outside of [first, last), except for some. \param first becomes the first column that is read
  bool crop(unsigned& first, unsigned last) {
    if (setjmp(errors_.jump) != 0) return false;
    JDIMENSION begin = first, width = last - first;
    jpeg_crop_scanline(&decoder_, &begin, &width);
    first = begin;
    return true;
  }

  /// Reads rows [first, last), and with `to_the_end` the others, too, which may be damaged.
  bool read(unsigned first, unsigned last, bool to_the_end, std::uint8_t* values) {
    if (setjmp(errors_.jump) != 0) return false;
    const std::size_t row = std::size_t{decoder_.output_width} * static_cast<std::size_t>(decoder_.output_components);
    if (first > 0) jpeg_skip_scanlines(&decoder_, first);
    while (decoder_.output_scanline < last) {
      JSAMPROW next = values + row * (decoder_.output_scanline - first);
      jpeg_read_scanlines(&decoder_, &next, 1);
    }
    if (!to_the_end) return true;
    if (last < decoder_.output_height) jpeg_skip_scanlines(&decoder_, decoder_.output_height - last);
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

/// The largest part of its size at which a rectangle still has twice the pixels each way that are needed.
unsigned denominator_for(const Box& box, std::int64_t width, std::int64_t height) {
  const auto least_width = static_cast<double>(2 * width), least_height = static_cast<double>(2 * height);
  for (const unsigned denominator : {8U, 4U, 2U}) {
    if (box.width / denominator >= least_width && box.height / denominator >= least_height) return denominator;
  }
  return 1;
}

/// A rectangle of the picture in what it is decoded to.
Box in_scaled(const Box& box, const jpeg_decompress_struct& decoder) {
  const double x = static_cast<double>(decoder.output_width) / decoder.image_width;
  const double y = static_cast<double>(decoder.output_height) / decoder.image_height;
  return {box.left * x, box.top * y, box.width * x, box.height * y};
}

/// Pixels [first, last) along one axis.
struct Interval {
  unsigned first = 0, last = 0;
};

/// The pixels that scaling reads, and some more: those at the edges of what is decoded are not as in the whole picture.
Interval needed(double begin, double extent, std::int64_t count, unsigned length) {
  constexpr double kMargin = 2;
  const double beyond = reach(extent, count) + kMargin;
  const double first = std::clamp(std::floor(begin - beyond), 0.0, static_cast<double>(length - 1));
  const double last = std::clamp(std::ceil(begin + extent + beyond), first + 1, static_cast<double>(length));
  return {static_cast<unsigned>(first), static_cast<unsigned>(last)};
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

}  // namespace

int decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, const DecodingRequest& request,
                PicturePart& part) {
  Decoder decoder(bytes);
  const auto require = [&](bool done) {
    if (!done) fail_picture(name, kDamaged + decoder.message());
  };
  require(decoder.read_header());
  const jpeg_decompress_struct& state = decoder.state();
  require_pixels(name, state.image_width, state.image_height);
  const int orientation = orientation_of(state);
  const bool lies = orientation >= 5;
  const std::int64_t width = lies ? request.height : request.width, height = lies ? request.width : request.height;
  Box box = chosen_box(request, orientation, state.image_width, state.image_height);
  const bool ink = state.jpeg_color_space == JCS_CMYK || state.jpeg_color_space == JCS_YCCK;
  const bool is_grey = request.colours == Colours::grey;
  require(decoder.begin(ink ? JCS_CMYK : is_grey ? JCS_GRAYSCALE : JCS_RGB, denominator_for(box, width, height)));
  box = in_scaled(box, state);
  Interval columns = needed(box.left, box.width, width, state.output_width);
  const Interval rows = needed(box.top, box.height, height, state.output_height);
  if (columns.last - columns.first < state.output_width) require(decoder.crop(columns.first, columns.last));
  part.box = box;
  part.left = columns.first;
  part.top = rows.first;
  Picture& picture = part.picture;
  picture.height = rows.last - rows.first;
  picture.width = state.output_width;
  picture.channels = state.output_components;
  picture.values.resize(static_cast<std::size_t>(picture.height * picture.width * picture.channels));
  require(decoder.read(rows.first, rows.last, request.to_the_end, picture.values.data()));
  if (ink) {
    to_rgb(picture, state.saw_Adobe_marker != FALSE);
    if (is_grey) to_grey(picture);
  }
  return orientation;
}

DecodingBytes jpeg_decoding_bytes(std::span<const std::uint8_t> bytes, const ImageForm& form) {
  Decoder decoder(bytes);
  if (!decoder.read_header()) return {};
  const jpeg_decompress_struct& state = decoder.state();
  const std::int64_t height = state.image_height, width = state.image_width, pixels = height * width;
  const Box whole{.width = static_cast<double>(width), .height = static_cast<double>(height)};
  const std::int64_t denominator = denominator_for(whole, form.width, form.height);
  // Smaller rectangles are decoded at a larger scale, where they have less than four times the form's pixels each way.
  const std::int64_t most =
      std::max(pixels / (denominator * denominator), std::min(pixels, 16 * form.width * form.height));
  DecodingBytes all{.kept = most * state.num_components};
  if (orientation_of(state) != 1) all.working = all.kept;
  if (state.progressive_mode == FALSE) return all;
  for (int i = 0; i < state.num_components; ++i) {  // whose coefficients are all held until the last scan
    const jpeg_component_info& component = state.comp_info[i];
    all.working += std::int64_t{component.width_in_blocks} * component.height_in_blocks * std::int64_t{sizeof(JBLOCK)};
  }
  return all;
}

void check_jpeg(std::span<const std::uint8_t> bytes, const std::string& name) {
  Decoder decoder(bytes);
  if (!decoder.read_header()) fail_picture(name, kDamaged + decoder.message());
  require_pixels(name, decoder.state().image_width, decoder.state().image_height);
  // The header ends where the image's data begin. Among these, the two bytes stand at their end alone.
  const auto left = bytes.last(decoder.state().src->bytes_in_buffer);
  const std::string_view data(reinterpret_cast<const char*>(left.data()), left.size());
  if (data.rfind("\xFF\xD9") == std::string_view::npos) fail_picture(name, std::string(kDamaged) + "it is cut off");
}

}  // namespace unisono::data
