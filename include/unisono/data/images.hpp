#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"

namespace unisono::data {

/// How a picture becomes one of another shape.
enum class Fit { crop, pad, stretch };

inline constexpr Named<Fit> kFits[] = {{Fit::crop, "crop", "its largest part in the middle that has the shape"},
                                       {Fit::pad, "pad", "all of it, with black at two sides"},
                                       {Fit::stretch, "stretch", "all of it, stretched to the shape"}};

/// What a pixel is.
enum class Colours { rgb, grey };

inline constexpr Named<Colours> kColours[] = {{Colours::rgb, "rgb", "red, green and blue"},
                                              {Colours::grey, "grey", "its brightness"}};

/// The images of a set whose pictures had any size: what a picture becomes.
struct ImageForm {
  std::int64_t height = 0, width = 0;  ///< pixels
  Fit fit = Fit::crop;
  Colours colours = Colours::rgb;
  double centre = 1;  ///< Fit::crop: which share of the sides of its largest part is kept, around the middle
  bool operator==(const ImageForm&) const = default;

  std::int64_t channels() const { return colours == Colours::rgb ? 3 : 1; }
  /// Bytes of an image.
  std::int64_t bytes() const { return height * width * channels(); }
};

/// What is wrong with a form; empty: nothing. It has at least one pixel, and at most 2^26 values.
std::string problem_of(const ImageForm& form);
/// \throws DataError for a form with which something is wrong
void require_size(const ImageForm& form);

}  // namespace unisono::data
