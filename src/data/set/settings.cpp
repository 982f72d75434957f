#include "unisono/data/dataset.hpp"

namespace unisono {

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
  visitor.field({.name = "crop_padding",
                 .meaning = "zeros on each side of an image, out of which a crop of the old size is taken at random",
                 .unit = "pixels",
                 .minimum = 0,
                 .maximum = 1 << 20},
                crop_padding);
  visitor.field({.name = "horizontal_flip", .meaning = "mirror every other image, at random"}, horizontal_flip);
  visitor.field({.name = "shift",
                 .meaning = "move an image at random by at most so much in each direction; zeros come in",
                 .unit = "pixels",
                 .minimum = 0,
                 .maximum = 1 << 20},
                shift);
}

void DataSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "path", .meaning = "the HDF5 file of the examples", .required = true}, path);
  visitor.choice({.name = "targets", .meaning = "what is to be learnt"}, targets,
                 {{"auto", "the labels or targets that the file has"}, {"features", "the input itself: autoencoders"}});
  visitor.choice({.name = "partition", .meaning = "which examples a rank trains on"}, partition,
                 {{"auto", "fixed for networks on a parameter server, whose workers go at their own pace; else global"},
                  {"global", "its slice of every batch of one order over the whole set: P ranks equal one"},
                  {"fixed", "its own part of the set for the whole run, shuffled inside: less memory, fewer reads"},
                  {"strata", "ratings: those of its users; strategy.kind = \"stratified\" sets it"}});
  visitor.choice({.name = "reader", .meaning = "where examples wait"}, reader,
                 {{"auto", "resident if that takes at most half of the memory that is free on every node"},
                  {"resident", "in memory, one copy a node"},
                  {"streaming", "in the file, read ahead; shuffled in windows"}});
  visitor.field({.name = "window_bytes",
                 .meaning = "streaming: memory, over all ranks, of the window that examples are shuffled in; "
                            "0: 256 MiB",
                 .unit = "bytes",
                 .minimum = 0},
                window_bytes);
  visitor.field({.name = "validation_fraction",
                 .meaning = "share of the training examples that validate instead, where the file has no such group",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                validation_fraction);
  visitor.field({.name = "split_seed",
                 .meaning = "of the choice of validation examples; `seed` does not change it, so that runs with other "
                            "seeds are compared on the same ones",
                 .minimum = 0},
                split_seed);
  visitor.field(
      {.name = "stratify",
       .meaning = "take the same fraction of each class for validation, where there are classes; a streamed set "
                  "gives whole blocks of rows instead"},
      stratify);
  visitor.choice({.name = "layout", .meaning = "axes of images with channels, where the file does not say"}, layout,
                 {{"auto", "channels first; an error where channels last seem as likely"},
                  {"chw", "[n, channels, height, width]"},
                  {"hwc", "[n, height, width, channels]"}});
  visitor.choice(
      {.name = "normalization", .meaning = "features minus mean over deviation, as the training set has them"},
      normalization,
      {{"auto", "as the set's import said (--scale); else none"},
       {"none", "features as they are"},
       {"global", "one mean and deviation for all"},
       {"channel", "for each channel"},
       {"feature", "for each feature"}});
  visitor.field({.name = "shuffle", .meaning = "train in a new random order every epoch, or in the file's order"},
                shuffle);
  visitor.choice({.name = "order", .meaning = "that order"}, order,
                 {{"random", "another one every epoch"},
                  {"strata", "ratings: the grid's blocks, a diagonal a step; strategy.kind = \"stratified\" sets it"}});
  visitor.require("order", order == "random" || shuffle, "order = \"strata\" needs shuffle = true");
  visitor.section({.name = "augmentation", .meaning = "random changes of training images, new ones every epoch"},
                  augmentation);
}

}  // namespace unisono
