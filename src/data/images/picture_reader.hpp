#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "images/picture.hpp"
#include "images/resample.hpp"

namespace unisono::data {

/// Makes images of pictures. It keeps its memory from one to the next; each thread needs its own.
class PictureReader {
 public:
  /// Makes the image that a form asks for. \param to_the_end whether damage is looked for in parts that the image does
  /// not show \param image [channels, height, width] \throws DataError as `decode_part`
  void read(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& form, bool to_the_end,
            std::span<std::uint8_t> image);

  /// Scales a rectangle of a picture to the form's size, whatever the form's fit is.
  void read(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& form,
            const std::function<Box(std::int64_t height, std::int64_t width)>& choose, std::span<std::uint8_t> image);

  /// Makes the image that a form asks for of a decoded picture.
  void scale(Picture picture, const ImageForm& form, std::span<std::uint8_t> image);

  Resampler& resampler() { return resampler_; }

 private:
  struct Placing;
  static Placing place(double height, double width, const ImageForm& form);
  void put(const PicturePart& part, const ImageForm& form, const Placing& placing, std::span<std::uint8_t> image);

  PicturePart part_;
  Resampler resampler_;
};

}  // namespace unisono::data
