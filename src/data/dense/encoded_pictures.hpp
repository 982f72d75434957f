#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "images/picture_reader.hpp"
#include "order/schedule.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// Where the pictures of one of several files begin.
struct PicturesOfFile {
  std::int64_t first_row = 0, first_byte = 0;
};

/// The pictures of a group that holds the bytes of JPEG and PNG files, one after the other.
struct EncodedPictures {
  std::string set, group;  ///< path of the file, name of the group
  ImageForm form;          ///< the images that they become
  std::int64_t examples = 0, bytes = 0;
  std::vector<PicturesOfFile> files = {};  ///< where the set is several: those that have the group

  /// Reads where the pictures of these rows begin among all bytes, and where the last one ends: [rows + 1].
  /// \throws DataError where they do not follow each other within the bytes
  std::vector<std::int64_t> bounds(const hdf5::File& file, Range rows) const;

  /// Makes the image of a picture, as evaluation sees it. \param image [C, H, W] \throws DataError naming the picture
  void read(PictureReader& reader, std::int64_t row, std::span<const std::uint8_t> picture,
            std::span<std::uint8_t> image) const;
  /// Makes an image of the part of a picture that `choose` says.
  void read(PictureReader& reader, std::int64_t row, std::span<const std::uint8_t> picture,
            const std::function<Box(std::int64_t height, std::int64_t width)>& choose,
            std::span<std::uint8_t> image) const;

 private:
  template <typename Read>
  void naming(std::int64_t row, Read read) const;
};

/// Reads where a group's pictures lie. \throws DataError where they are not as they should be
EncodedPictures read_encoded_pictures(const hdf5::File& file, const std::string& group, const ImageForm& form);

}  // namespace unisono::data
