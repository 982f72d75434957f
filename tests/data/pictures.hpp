#pragma once

#include <cstdint>
#include <vector>

#include "images/picture_reader.hpp"

namespace unisono::data {

/// The image that a form asks for of a decoded picture, [channels, height, width].
inline std::vector<std::uint8_t> image_of(const Picture& picture, const ImageForm& form) {
  std::vector<std::uint8_t> image(static_cast<std::size_t>(form.bytes()));
  PictureReader().scale(picture, form, image);
  return image;
}

}  // namespace unisono::data
