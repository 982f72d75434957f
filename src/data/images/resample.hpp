#pragma once

#include <cstdint>
#include <vector>

#include "images/picture.hpp"

namespace unisono::data {

/// Pixels in memory: of a part of a picture, or of one channel of an image.
struct Pixels {
  const std::uint8_t* values;  ///< [height, width, channels]
  std::int64_t height, width, channels;
  std::int64_t left = 0, top = 0;  ///< of the whole picture, where the part begins
};

/// Where a scaled picture is put: channel c of pixel (y, x) is values[c · plane + y · row + x].
struct Planes {
  std::uint8_t* values;
  std::int64_t height, width;  ///< pixels of the scaled picture
  std::int64_t row, plane;
};

/// Scales rectangles of pictures. Each pixel is the mean of the pixels around its place, weighted by a triangle that is
/// as wide as the scale asks for: first along the rows, then along the columns, in whole numbers. These are the numbers
/// of Pillow's resize with Resampling.BILINEAR, so that all machines give the same bytes.
/// It keeps its memory from one picture to the next; each thread needs its own.
class Resampler {
 public:
  /// \param box in the whole picture
  void resample(const Pixels& pixels, const Box& box, const Planes& planes);

 private:
  std::vector<std::uint8_t> lanes_, scaled_, rows_;
};

/// How far from the rectangle pixels have an influence, where `extent` of them become `count`.
double reach(double extent, std::int64_t count);

}  // namespace unisono::data
