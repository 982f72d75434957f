#include "images/picture_reader.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace unisono::data {

/// What of a picture is shown, and in how many rows and columns of the form.
struct PictureReader::Placing {
  Box box;
  std::int64_t width = 0, height = 0;
};

PictureReader::Placing PictureReader::place(double height, double width, const ImageForm& form) {
  const double of_form = static_cast<double>(form.width) / static_cast<double>(form.height);
  const bool is_wider = width / height > of_form;
  Placing placing{.box = {.width = width, .height = height}, .width = form.width, .height = form.height};
  if (form.fit == Fit::crop) {
    (is_wider ? placing.box.width : placing.box.height) = is_wider ? height * of_form : width / of_form;
    placing.box.width *= form.centre;
    placing.box.height *= form.centre;
    placing.box.left = (width - placing.box.width) / 2;
    placing.box.top = (height - placing.box.height) / 2;
  } else if (form.fit == Fit::pad) {
    const double scale = is_wider ? static_cast<double>(form.width) / width : static_cast<double>(form.height) / height;
    placing.width = std::clamp<std::int64_t>(std::llround(scale * width), 1, form.width);
    placing.height = std::clamp<std::int64_t>(std::llround(scale * height), 1, form.height);
  }
  return placing;
}

/// Puts a scaled rectangle of a picture into the middle of an image that is black beside it.
void PictureReader::put(const PicturePart& part, const ImageForm& form, const Placing& placing,
                        std::span<std::uint8_t> image) {
  const Picture& picture = part.picture;
  const std::int64_t left = (form.width - placing.width) / 2, top = (form.height - placing.height) / 2;
  if (placing.width < form.width || placing.height < form.height) std::ranges::fill(image, std::uint8_t{0});
  resampler_.resample({picture.values.data(), picture.height, picture.width, picture.channels, part.left, part.top},
                      part.box,
                      {.values = image.data() + top * form.width + left,
                       .height = placing.height,
                       .width = placing.width,
                       .row = form.width,
                       .plane = form.height * form.width});
}

void PictureReader::read(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& form,
                         bool to_the_end, std::span<std::uint8_t> image) {
  Placing placing;
  const auto choose = [&](std::int64_t height, std::int64_t width) {
    placing = place(static_cast<double>(height), static_cast<double>(width), form);
    return placing.box;
  };
  decode_part(
      bytes, name,
      {.colours = form.colours, .height = form.height, .width = form.width, .choose = choose, .to_the_end = to_the_end},
      part_);
  put(part_, form, placing, image);
}

void PictureReader::read(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& form,
                         const std::function<Box(std::int64_t height, std::int64_t width)>& choose,
                         std::span<std::uint8_t> image) {
  decode_part(
      bytes, name,
      {.colours = form.colours, .height = form.height, .width = form.width, .choose = choose, .to_the_end = false},
      part_);
  put(part_, form, {.box = part_.box, .width = form.width, .height = form.height}, image);
}

void PictureReader::scale(Picture picture, const ImageForm& form, std::span<std::uint8_t> image) {
  const Placing placing = place(static_cast<double>(picture.height), static_cast<double>(picture.width), form);
  put({.picture = std::move(picture), .box = placing.box}, form, placing, image);
}

}  // namespace unisono::data
