#include "unisono/nn/network.hpp"

#include <catch2/catch.hpp>

#include "layers/catalog.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

using Catch::Contains;

NetworkSettings parse(const std::string& text) {
  NetworkSettings settings;
  parse_config({.path = "net.toml", .text = text, .overrides = {}}, [&](ConfigVisitor& v) { settings.describe(v); });
  return settings;
}

template <typename Settings>
std::string effective(Settings settings) {
  return effective_config([&](ConfigVisitor& v) { settings.describe(v); });
}

std::string settings_error(const std::string& text) {
  try {
    parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("layers are read as users write them", "[settings]") {
  const NetworkSettings settings = parse(R"(
    loss = "mean_squared_error"
    layers = [
      { kind = "convolution", channels = 20, kernel = 5, stride = [2, 1], initialiser = "glorot_uniform" },
      { kind = "max_pool", size = 2 },
      { kind = "relu" },
      { kind = "batch_norm", statistics = "local", momentum = 0.01 },
      { kind = "dropout", rate = 0.2 },
      { kind = "residual", layers = [
          { kind = "convolution", channels = 20, kernel = 3, padding = 1, bias = false },
        ], shortcut = [
          { kind = "convolution", channels = 20, kernel = 1, name = "projection" },
        ] },
      { kind = "flatten" },
      { kind = "dense", units = 10 },
    ])");
  REQUIRE(settings.layers.size() == 8);
  CHECK(settings.loss == LossKind::mean_squared_error);
  const auto has = [&](std::size_t i, const std::string& line) {
    CHECK_THAT(effective(settings.layers[i]), Contains(line));
  };
  has(0, "kernel = [5]");
  has(0, "stride = [2, 1]");
  has(0, "initialiser = \"glorot_uniform\"");
  has(3, "statistics = \"local\"");
  has(3, "momentum = 0.01");
  has(7, "units = 10");
  const auto block = settings.layers[5].own.of<ResidualSettings>();
  CHECK_THAT(effective(block.layers.at(0)), Contains("padding = [1]") && Contains("bias = false"));
  CHECK(block.shortcut.at(0).name == "projection");
}

TEST_CASE("what a layer's kind does not know, or leaves out, is an error with its place", "[settings]") {
  CHECK_THAT(settings_error("layers = [ { kind = \"dense\", unit = 3 } ]"),
             Contains("net.toml:1") && Contains("'unit'") && Contains("'units'"));
  CHECK_THAT(settings_error("layers = [ { kind = \"dense\" } ]"), Contains("units"));
  CHECK_THAT(settings_error("layers = [ { kind = \"dense\", units = 0 } ]"), Contains("units"));
  CHECK_THAT(settings_error("layers = [ { kind = \"relu\", units = 3 } ]"), Contains("units"));
  CHECK_THAT(settings_error("layers = [ { kind = \"dropout\", rate = 1.0 } ]"), Contains("rate"));
  CHECK_THAT(settings_error("layers = [ { kind = \"max_pol\" } ]"), Contains("max_pool"));
  CHECK_THAT(settings_error("layers = [ { units = 3 } ]"), Contains("kind"));
  CHECK_THAT(settings_error("layers = [ { kind = \"convolution\", channels = 3, kernel = [3, 0] } ]"),
             Contains("kernel"));
  CHECK_THAT(settings_error("layers = [ { kind = \"dense\", units = 3, initialiser = \"he\" } ]"),
             Contains("initialiser"));
  CHECK_THAT(settings_error("loss = \"hinge\"\nlayers = [ { kind = \"relu\" } ]"), Contains("loss"));
  CHECK_THAT(settings_error("label_smoothing = 1.0\nlayers = [ { kind = \"relu\" } ]"), Contains("label_smoothing"));
  CHECK_THAT(settings_error("loss = \"mean_squared_error\""), Contains("layers"));
  CHECK_THAT(settings_error("layers = [ { kind = \"residual\", layers = [ { kind = \"residual\", layers = [] } ] } ]"),
             Contains("residual"));
}

TEST_CASE("the effective config of a network gives the same network again", "[settings]") {
  const NetworkSettings settings = parse(R"(
    layers = [
      { kind = "convolution", channels = 2, kernel = [3, 2] },
      { kind = "average_pool" },
      { kind = "residual", layers = [ { kind = "layer_norm", epsilon = 1e-3 } ] },
      { kind = "dense", units = 3, name = "head", bias = false },
    ])");
  const std::string first = effective(settings);
  const NetworkSettings again = parse(first);
  CHECK(effective(again) == first);
  CHECK_THAT(first, Contains("kernel = [3, 2]") && Contains("epsilon = 0.001"));
  CHECK(again.layers[3].name == "head");
}

TEST_CASE("the reference names every kind of layer and ends", "[settings]") {
  NetworkSettings settings;
  const std::string text = config_reference([&](ConfigVisitor& v) { settings.describe(v); }, ReferenceFormat::text);
  for (const LayerKind& kind : layer_kinds()) CHECK_THAT(text, Catch::Contains(std::string(kind.name)));
}

TEST_CASE("every kind of layer can be found, and no other", "[settings]") {
  for (const LayerKind& kind : layer_kinds()) CHECK(find_layer_kind(kind.name) == &kind);
  CHECK(find_layer_kind("lstm") == nullptr);
}

}  // namespace
}  // namespace unisono::nn
