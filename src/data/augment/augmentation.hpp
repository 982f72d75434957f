#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "images/picture.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/tensor/features.hpp"

// Random changes of training images. Each is a function of (seed, epoch, example) alone, whatever rank or thread draws
// it: u(i) is uniform number i of RandomStream(seed, Purpose::augmentation, example, epoch), and each change has
// numbers of its own.
namespace unisono::data {

/// Factors of brightness, contrast and saturation, and a part of the circle of hues.
struct ColourChange {
  float brightness = 1, contrast = 1, saturation = 1, hue = 0;
  bool operator==(const ColourChange&) const = default;
};

/// A rectangle of an image; pixels.
struct Patch {
  Index top = 0, left = 0, height = 0, width = 0;
};

/// What becomes of an example's image, beside the part of it that is chosen.
struct Augmentation {
  Movement movement;
  float degrees = 0;  ///< turned to the left
  ColourChange colours = {};
  std::optional<Patch> erased = {};
};

/// How an example is mixed with another one.
struct Mixing {
  float share = 1;                  ///< of the example itself; the other one has the rest
  std::optional<Patch> patch = {};  ///< a part of the image that is the other one's; nothing: values are mixed
};

/// Whether the settings ask for any augmentation.
bool has_effect(const AugmentationSettings& settings);
/// Whether images are changed in no way that a device cannot make.
bool only_moves(const AugmentationSettings& settings);
bool changes_colours(const AugmentationSettings& settings);
/// Whether they change images by themselves.
bool changes_images(const AugmentationSettings& settings);
bool mixes_examples(const AugmentationSettings& settings);

/// Draws an example's shift and flip. A random crop of the padded image is a shift by at most the padding.
Movement draw_movement(const AugmentationSettings& settings, std::uint64_t seed, std::int64_t epoch,
                       std::uint64_t example);
/// The same and all else that is drawn for an image of this shape.
Augmentation draw_augmentation(const AugmentationSettings& settings, const FeatureShape& shape, std::uint64_t seed,
                               std::int64_t epoch, std::uint64_t example);

/// Draws which part of a picture becomes the image: a share of its area from `crop_area` to 1, and the image's aspect
/// times a factor from 1 / `crop_aspect` to `crop_aspect`, both at random, anywhere. After ten of them that do not fit
/// in, the largest part in the middle with the nearest possible aspect (Szegedy et al., "Going deeper with
/// convolutions", CVPR 2015). \param aspect width over height of the image
Box draw_crop(const AugmentationSettings& settings, double aspect, std::uint64_t seed, std::int64_t epoch,
              std::uint64_t example, std::int64_t height, std::int64_t width);

/// The number of the distribution Beta(α, α) that two uniform numbers make: ½ (1 + T / √(2α + T²)), where T has
/// Student's t distribution with 2α degrees of freedom (Bailey, "Polar generation of random variates with the
/// t-distribution", Mathematics of Computation 62, 1994). \param u, v in [0, 1)
double symmetric_beta(double alpha, double u, double v);

/// Draws how an example is mixed with its partner: by mixup (Zhang et al., "mixup: beyond empirical risk minimization",
/// ICLR 2018) or cutmix (Yun et al., "CutMix", ICCV 2019), half and half where the settings ask for both.
Mixing draw_mixing(const AugmentationSettings& settings, const FeatureShape& shape, std::uint64_t seed,
                   std::int64_t epoch, std::uint64_t example);
/// out = share · own + (1 − share) · other; or own, but for the patch. \param own, other, out [C, H, W]
void mix_features(const FeatureShape& shape, const Mixing& mixing, const float* own, const float* other, float* out);

/// Shifts and flips an image; outside of it are zeros. \param in, out [C, H, W]
void move_image(const FeatureShape& shape, const Movement& movement, const float* in, float* out);

/// What lies outside of an image.
struct Outside {
  Fill fill = Fill::black;
  std::vector<float> values = {};  ///< [C] of a pixel outside, unless the image is reflected
};

/// Shifts and flips an image, as above.
void move_image(const FeatureShape& shape, const Movement& movement, const Outside& outside, const float* in,
                float* out);
/// Turns an image around its middle. Each pixel is interpolated between the four around its place.
void turn_image(const FeatureShape& shape, float degrees, const Outside& outside, const float* in, float* out);
/// Changes the colours of an image of one or three channels: brightness, contrast, saturation, hue, in this order, each
/// cut off at 0 and 1. \param image [C, H, W] from 0 to 1
void change_colours(const FeatureShape& shape, const ColourChange& change, float* image);

}  // namespace unisono::data
