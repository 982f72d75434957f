// Shape inference by hand, and errors that name the layer.
#include <catch2/catch.hpp>

#include "graph.hpp"
#include "network_trial.hpp"
#include "reference_backend.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

using Catch::Matchers::Equals;

std::vector<std::string> shapes(const std::vector<LayerSettings>& layers, const kernels::Extent& in) {
  std::vector<std::string> texts;
  for (const ConfiguredLayer& row : build_graph({.layers = layers}, {in}).configured) {
    texts.push_back(text_of(row.out));
  }
  return texts;
}

std::string graph_error(const std::vector<LayerSettings>& layers, const kernels::Extent& in,
                        bool steps_together = true) {
  try {
    build_graph({.layers = layers}, {in}, {.steps_together = steps_together});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("LeNet's shapes are inferred", "[shapes]") {
  // 28 − 5 + 1 = 24, /2 = 12, 12 − 5 + 1 = 8, /2 = 4; 50 · 4 · 4 = 800.
  const std::vector<LayerSettings> lenet = {
      convolution(20, {5}), pool("max_pool", {2}), layer("relu"), convolution(50, {5}), pool("max_pool", {2}),
      layer("relu"),        layer("flatten"),      dense(500),    layer("relu"),        dense(10)};
  CHECK(shapes(lenet, {1, 28, 28}) == std::vector<std::string>{"20×24×24", "20×12×12", "20×12×12", "50×8×8", "50×4×4",
                                                               "50×4×4", "800", "500", "500", "10"});
}

TEST_CASE("stride, padding, dilation and rectangular kernels count in shapes", "[shapes]") {
  const LayerSettings wide = convolution(4, {3, 5}, {1, 0}, "stride = [2, 3], dilation = [1, 2]");
  // height (9 + 2 − 2 − 1)/2 + 1 = 5; width (20 − 2·4 − 1)/3 + 1 = ⌊11/3⌋ + 1 = 4
  CHECK(shapes({wide}, {2, 9, 20}) == std::vector<std::string>{"4×5×4"});
  const LayerSettings padded = pool("average_pool", {3}, {2}, "padding = 1");
  // (8 + 2 − 3)/2 + 1 = ⌊7/2⌋ + 1 = 4
  CHECK(shapes({padded}, {2, 8, 8}) == std::vector<std::string>{"2×4×4"});
  CHECK(shapes({pool("max_pool", {2, 3})}, {2, 8, 9}) == std::vector<std::string>{"2×4×3"});
  CHECK(shapes({layer("global_average_pool")}, {7, 8, 9}) == std::vector<std::string>{"7"});
}

TEST_CASE("element-wise layers and norms keep an image's shape", "[shapes]") {
  for (const char* kind : {"relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "dropout", "batch_norm", "layer_norm"}) {
    CHECK(shapes({layer(kind)}, {3, 4, 5}) == std::vector<std::string>{"3×4×5"});
  }
}

TEST_CASE("a dense layer takes an image with or without flatten", "[shapes]") {
  CHECK(shapes({dense(7)}, {3, 4, 5}) == std::vector<std::string>{"7"});
  CHECK(shapes({layer("flatten"), layer("relu"), dense(7)}, {3, 4, 5}) == std::vector<std::string>{"60", "60", "7"});
}

TEST_CASE("layers are named by kind and number, inside residual blocks by the block, too", "[shapes]") {
  LayerSettings own = dense(3);
  own.name = "head";
  std::vector<std::string> names;
  const std::vector<LayerSettings> block = {convolution(2, {3}, {1}), layer("relu"), convolution(2, {3}, {1})};
  const std::vector<LayerSettings> layers = {convolution(2, {1}), residual(block, {convolution(2, {1})}), dense(4),
                                             own};
  for (const ConfiguredLayer& row : build_graph({.layers = layers}, {{1, 4, 4}}).configured) {
    names.push_back(row.name);
  }
  CHECK(names == std::vector<std::string>{"convolution1", "residual1.shortcut.convolution1", "residual1.convolution1",
                                          "residual1.relu1", "residual1.convolution2", "residual1", "dense1", "head"});
}

TEST_CASE("an error names the layer, its place and what to do", "[shapes]") {
  const kernels::Extent image{1, 6, 6};
  CHECK_THAT(graph_error({dense(3), convolution(4, {5})}, image),
             Equals("model.layers[1] 'convolution1': the kernel spans 5×5 values but the input is 3 with padding 0×0; "
                    "use a smaller kernel or more padding"));
  CHECK_THAT(
      graph_error({convolution(4, {5}), pool("max_pool", {3})}, image),
      Equals("model.layers[1] 'max_pool1': the window 3×3 is larger than the input 4×2×2; use a smaller window"));
  CHECK_THAT(graph_error({layer("flatten"), convolution(4, {1})}, image),
             Equals("model.layers[1] 'convolution1': convolution needs an image, but a flatten above has made it a row "
                    "of 36 values; put it above the flatten"));
  CHECK_THAT(graph_error({layer("flatten"), layer("batch_norm")}, image),
             Catch::StartsWith("model.layers[1] 'batch_norm1'"));
  const LayerSettings grouped = convolution(4, {1}, {}, "groups = 2");
  CHECK_THAT(graph_error({grouped}, {3, 4, 4}),
             Equals("model.layers[0] 'convolution1': 2 groups do not divide both 3 input and 4 output channels; make "
                    "both multiples of the groups"));
  const LayerSettings cube = convolution(4, {1, 2, 3});
  CHECK_THAT(graph_error({cube}, image),
             Equals("model.layers[0] 'convolution1': 'kernel' has 3 numbers; use one, or [height, width]"));
  const LayerSettings thick = pool("max_pool", {2}, {}, "padding = 2");
  CHECK_THAT(graph_error({thick}, image), Equals("model.layers[0] 'max_pool1': padding 2×2 is more than half of the "
                                                 "window 2×2; use less padding"));
}

TEST_CASE("an error inside a residual block names the inner layer once", "[shapes]") {
  const kernels::Extent image{2, 6, 6};
  CHECK_THAT(
      graph_error({dense(2), residual({dense(3), convolution(4, {5})})}, image),
      Equals("model.layers[1].layers[1] 'residual1.convolution1': the kernel spans 5×5 values but the input is 3 "
             "with padding 0×0; use a smaller kernel or more padding"));
  CHECK_THAT(
      graph_error({residual({convolution(3, {3})})}, image),
      Equals("model.layers[0] 'residual1': the branch gives 3×4×4 but the shortcut gives 2×6×6; make them equal, "
             "for instance with a convolution of kernel 1 as 'shortcut'"));
  CHECK_THAT(graph_error({residual({layer("flatten")})}, image),
             Equals("model.layers[0] 'residual1': its branch is empty; add 'layers'"));
}

TEST_CASE("names must be plain and unique", "[shapes]") {
  LayerSettings first = dense(3), second = dense(3), odd = dense(3);
  first.name = second.name = "head";
  odd.name = "a/b";
  CHECK_THAT(graph_error({first, second}, {4, 1, 1}),
             Equals("model.layers[1] 'head': another layer has this name already; choose a different one"));
  CHECK_THAT(graph_error({odd}, {4, 1, 1}),
             Equals("model.layers[0] 'a/b': the name 'a/b' may contain only letters, digits, _ and -"));
}

TEST_CASE("global batch statistics are refused where ranks drift apart", "[shapes]") {
  const LayerSettings norm = layer("batch_norm", "statistics = 'global'");
  CHECK(graph_error({norm}, {4, 1, 1}, true) == "none");
  CHECK_THAT(graph_error({norm}, {4, 1, 1}, false),
             Equals("model.layers[0] 'batch_norm1': statistics = \"global\" needs a strategy that keeps the "
                    "ranks in step, and this one does not; use \"auto\" or \"local\""));
}

TEST_CASE("a network needs layers, and something to train", "[shapes]") {
  ReferenceBackend backend;
  CHECK_THAT(graph_error({}, {4, 1, 1}), Equals("model.layers: the network has no layers; give it at least one"));
  CHECK_THROWS_AS(Network({.layers = {layer("relu")}}, {{4, 1, 1}}, backend), ConfigError);
  CHECK_THROWS_WITH(Network({.layers = {dense(3)}}, {{4, 1, 1}}, backend, {.recomputes_blocks = true}),
                    Catch::Contains("no residual block"));
  LayerSettings unknown;
  unknown.kind = "densee";
  CHECK_THAT(graph_error({unknown}, {4, 1, 1}), Catch::Contains("there is no kind of layer 'densee'"));
}

}  // namespace
}  // namespace unisono::nn
