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

/// The pictures of a group that holds the bytes of JPEG and PNG files, one after the other.
struct EncodedPictures {
  std::string set, group;                ///< path of the file, name of the group
  ImageForm form;                        ///< the images that they become
  std::vector<std::uint64_t> ends = {};  ///< [examples] where each ends among the bytes

  std::uint64_t begin(std::int64_t row) const { return row == 0 ? 0 : ends[static_cast<std::size_t>(row) - 1]; }
  /// Bytes of the pictures of these rows.
  std::size_t bytes(Range rows) const { return static_cast<std::size_t>(begin(rows.last) - begin(rows.first)); }

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
