#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono {

/// An element of a list, of which one kind holds a list of the other kinds.
struct TestLayer {
  std::string kind;
  std::string name;
  std::int64_t units = 0;
  std::vector<std::int64_t> kernel;
  std::vector<TestLayer> layers;
  bool inner = false;

  void describe(ConfigVisitor& visitor) {
    std::vector<Variant> variants = {
        {"dense", "a full product",
         [this](ConfigVisitor& v) {
           v.field({.name = "units", .meaning = "outputs", .range = at_least(1), .required = true}, units);
         }},
        {"convolution", "a sliding product",
         [this](ConfigVisitor& v) {
           v.field({.name = "kernel", .meaning = "its size", .unit = "pixels", .range = at_least(1)}, kernel);
         }},
        {"relu", "the positive part"}};
    if (!inner) variants.push_back({"residual", "a branch and its input", [this](auto& v) { describe_branch(v); }});
    visitor.variant({.name = "kind", .meaning = "what the layer computes", .required = true}, kind, variants);
    visitor.field({.name = "name", .meaning = "how messages call it"}, name);
  }

  void describe_branch(ConfigVisitor& visitor) {
    visitor.list(
        {.name = "layers", .meaning = "the branch"}, layers.size(), [this](std::size_t size) { layers.resize(size); },
        [this](std::size_t i, ConfigVisitor& v) {
          layers[i].inner = true;
          layers[i].describe(v);
        });
  }
};

/// One of everything that a config can hold.
struct TestSettings {
  bool shuffle = true;
  std::int64_t epochs = 10;
  double smoothing = 0;
  double timeout = 60;
  std::string path;
  std::vector<std::int64_t> sizes;
  std::vector<double> milestones = {0.5, 0.75};
  std::vector<std::string> tags;
  std::string reader = "auto";
  std::vector<TestLayer> layers;

  void describe(ConfigVisitor& visitor) {
    visitor.section({.name = "train", .meaning = "how long | and how"}, [this](ConfigVisitor& v) {
      v.field({.name = "epochs", .meaning = "passes over the training set", .range = at_least(1).at_most(1000)},
              epochs);
      v.field({.name = "smoothing", .meaning = "share of the target", .range = NumberRange().below(1)}, smoothing);
      v.field({.name = "timeout", .meaning = "patience", .unit = "seconds", .range = above(0)}, timeout);
      v.field({.name = "shuffle", .meaning = "whether to"}, shuffle);
      v.field({.name = "milestones", .meaning = "where the rate drops", .range = at_least(0)}, milestones);
      v.require("smoothing", smoothing == 0 || epochs > 1, "smoothing needs more than one epoch; set epochs = 2");
    });
    visitor.section({.name = "data", .meaning = "what is learned from"}, [this](ConfigVisitor& v) {
      v.field({.name = "path", .meaning = "the HDF5 file", .required = true}, path);
      v.field({.name = "sizes", .meaning = "of the parts"}, sizes);
      v.field({.name = "tags", .meaning = "of the set"}, tags);
      v.choice({.name = "reader", .meaning = "how it is read"}, reader,
               {{"auto", "as it fits"}, {"resident", "at once"}, {"streaming", "in chunks"}});
    });
    visitor.section({.name = "model", .meaning = "what learns"},
                    [this](ConfigVisitor& v) { v.list({.name = "layers", .meaning = "the layers"}, layers); });
  }

  Describe visitor() {
    return [this](ConfigVisitor& v) { describe(v); };
  }
};

/// The one key of TestSettings that is required.
inline const std::string kData = "data.path = 'x.h5'\n";

/// A text that is refused, and what parsing complains of.
struct Wrong {
  std::string text, complaint;
};

}  // namespace unisono
