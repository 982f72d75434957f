#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "unisono/base/config.hpp"

namespace unisono::data {

enum class Targets { automatic, features };

inline constexpr Named<Targets> kTargets[] = {{Targets::automatic, "auto", "the labels or targets in the file"},
                                              {Targets::features, "features", "the input itself, for autoencoders"}};

enum class Partition { automatic, global, fixed, strata };

inline constexpr Named<Partition> kPartitions[] = {
    {Partition::automatic, "auto",
     "fixed for networks with parameter servers, whose workers run at their own pace; otherwise global"},
    {Partition::global, "global",
     "each batch comes from one order of the whole set, and a rank gets a slice of it: P ranks give the result of one"},
    {Partition::fixed, "fixed",
     "each rank has its own part of the set for the whole run and shuffles within it: needs less memory and reads "
     "less"},
    {Partition::strata, "strata", "for ratings: each rank has the ratings of its users"}};

enum class Order { random, strata };

inline constexpr Named<Order> kOrders[] = {
    {Order::random, "random", "a new random order in every epoch"},
    {Order::strata, "strata", "for ratings: the blocks of the grid, one diagonal per step"}};

enum class Reader { automatic, resident, streaming };

inline constexpr Named<Reader> kReaders[] = {
    {Reader::automatic, "auto",
     "resident if the set needs at most half of the free memory on every node, otherwise streaming"},
    {Reader::resident, "resident", "in memory, one copy per node"},
    {Reader::streaming, "streaming", "read from the file during training, ahead of use, and shuffled within a window"}};

enum class ImageLayout { automatic, chw, hwc };

inline constexpr Named<ImageLayout> kImageLayouts[] = {
    {ImageLayout::automatic, "auto", "channels first; an error if channels last seem as likely"},
    {ImageLayout::chw, "chw", "[n, channels, height, width]"},
    {ImageLayout::hwc, "hwc", "[n, height, width, channels]"}};

enum class NormalizationKind { automatic, none, global, channel, feature };

inline constexpr Named<NormalizationKind> kNormalizations[] = {
    {NormalizationKind::automatic, "auto", "as the import of the data set said (--scale), otherwise none"},
    {NormalizationKind::none, "none", "no normalisation"},
    {NormalizationKind::global, "global", "one mean and standard deviation for all features"},
    {NormalizationKind::channel, "channel", "one mean and standard deviation per channel"},
    {NormalizationKind::feature, "feature", "one mean and standard deviation per feature"}};

/// `[data.augmentation]`, for images in training.
struct AugmentationSettings {
  std::int64_t crop_padding = 0;  ///< pixels of zero padding on each side, before a random crop back to the size
  bool horizontal_flip = false;
  std::int64_t shift = 0;  ///< at most so many pixels in each direction
  void describe(ConfigVisitor& visitor);
};

/// `[data]`: which set is used, and how it is read.
struct DataSettings {
  std::string path = {};
  Targets targets = Targets::automatic;
  Partition partition = Partition::automatic;
  Order order = Order::random;  ///< of training examples, if they are shuffled
  Reader reader = Reader::automatic;
  std::int64_t window_bytes = 0;   ///< streaming: memory of the shuffle window; 0: chosen automatically
  double validation_fraction = 0;  ///< share of the training set for validation, if the file has no validation group
  std::int64_t split_seed = 1;     ///< seed of this split
  bool stratify = true;            ///< whether the split takes the same fraction of each class
  ImageLayout layout = ImageLayout::automatic;  ///< of images with channels
  NormalizationKind normalization = NormalizationKind::automatic;
  bool shuffle = true;
  std::int64_t arrangement_seed = -1;  ///< of the order in which sparse rows and ratings lie in memory; −1: `seed`
  AugmentationSettings augmentation = {};
  /// The setting that makes a run train in strata, as messages and the reference name it; empty: there is none.
  std::string_view strata_set_by = {};
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::data
