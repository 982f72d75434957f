#include <fmt/format.h>

#include <array>
#include <string>

#include "unisono/data/dataset.hpp"

namespace unisono::data {
namespace {

/// The choices of a setting; the meaning of strata names what sets it, if anything does.
template <typename Enum, std::size_t N>
void choose(ConfigVisitor& visitor, const Field& field, Enum& value, const Named<Enum> (&names)[N],
            std::string_view strata_set_by) {
  std::array<Named<Enum>, N> described = std::to_array(names);
  std::string meaning;
  for (Named<Enum>& one : described) {
    if (one.value != Enum::strata || strata_set_by.empty()) continue;
    meaning = fmt::format("{}; set by {}", one.meaning, strata_set_by);
    one.meaning = meaning;
  }
  visitor.choice(field, value, described);
}

}  // namespace

std::string_view name_of(Split split) {
  return split == Split::train ? "train" : split == Split::validation ? "validation" : "test";
}

std::string_view name_of(SetKind kind) {
  switch (kind) {
    case SetKind::table:
      return "a table";
    case SetKind::sparse:
      return "sparse rows";
    case SetKind::ratings:
      return "ratings";
    case SetKind::text:
      return "text";
    case SetKind::cooccurrences:
      return "co-occurrences";
  }
  return "";
}

void AugmentationSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "crop_padding",
       .meaning = "zeros to add on each side of an image before it is cropped to its original size at a random place",
       .unit = "pixels",
       .minimum = 0,
       .maximum = 1 << 20},
      crop_padding);
  visitor.field({.name = "horizontal_flip", .meaning = "mirror each image with probability 0.5"}, horizontal_flip);
  visitor.field({.name = "shift",
                 .meaning = "largest random shift of an image, in each direction; pixels that come in are zeros",
                 .unit = "pixels",
                 .minimum = 0,
                 .maximum = 1 << 20},
                shift);
}

void DataSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "path", .meaning = "HDF5 file with the data set", .required = true}, path);
  visitor.choice({.name = "targets", .meaning = "what the model learns to predict"}, targets, kTargets);
  choose(visitor, {.name = "partition", .meaning = "how examples are assigned to ranks"}, partition, kPartitions,
         strata_set_by);
  visitor.choice({.name = "reader", .meaning = "whether the data set is held in memory or read during training"},
                 reader, kReaders);
  visitor.field(
      {.name = "window_bytes",
       .meaning = "for streaming: memory, over all ranks, of the window in which examples are shuffled; 0: 256 MiB",
       .unit = "bytes",
       .minimum = 0},
      window_bytes);
  visitor.field(
      {.name = "validation_fraction",
       .meaning =
           "share of the training examples that is used for validation instead, if the file has no group `validation`",
       .minimum = 0,
       .maximum = 1,
       .maximum_excluded = true},
      validation_fraction);
  visitor.field({.name = "split_seed",
                 .meaning = "seed of the choice of these validation examples. `seed` does not change it, so that runs "
                            "with different seeds are compared on the same examples",
                 .minimum = 0},
                split_seed);
  visitor.field({.name = "stratify",
                 .meaning = "take the same share of each class for validation, if the examples have class labels; "
                            "streaming takes whole blocks of rows instead"},
                stratify);
  visitor.choice({.name = "layout", .meaning = "order of the axes of images, if the file does not state it"}, layout,
                 kImageLayouts);
  visitor.choice(
      {.name = "normalization",
       .meaning = "subtract the mean of the training set from features, and divide by its standard deviation"},
      normalization, kNormalizations);
  visitor.field({.name = "shuffle",
                 .meaning = "true: shuffle the training examples in every epoch; false: use the order of the file"},
                shuffle);
  visitor.number_or(
      {.name = "arrangement_seed",
       .meaning = "seed of the random order in which sparse rows and ratings lie in memory. With a number, runs "
                  "with different seeds can share one copy of the set",
       .minimum = 0},
      arrangement_seed, {"seed", "the seed of the run"});
  choose(visitor, {.name = "order", .meaning = "order of shuffled examples"}, order, kOrders, strata_set_by);
  visitor.require("order", order == Order::random || shuffle, "order = \"strata\" needs shuffle = true");
  visitor.section({.name = "augmentation", .meaning = "random changes of training images, different in every epoch"},
                  augmentation);
}

}  // namespace unisono::data
