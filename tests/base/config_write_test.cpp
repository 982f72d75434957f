#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "config_settings.hpp"
#include "unisono/base/config.hpp"

namespace unisono {
namespace {

TEST_CASE("the effective config holds every key in force, tables behind the keys of their parents", "[config]") {
  TestSettings settings;
  settings.path = "x.h5";
  settings.layers.resize(2);
  settings.layers[0].kind = "dense";
  settings.layers[0].units = 2;
  settings.layers[1].kind = "residual";
  settings.layers[1].name = "r";
  settings.layers[1].layers.resize(1);
  settings.layers[1].layers[0].kind = "relu";
  settings.layers[1].layers[0].inner = true;
  CHECK(effective_config(settings.visitor()) == R"(
[train]
epochs = 10
smoothing = 0.0
timeout = 60.0
shuffle = true
milestones = [0.5, 0.75]

[data]
path = "x.h5"
sizes = []
tags = []
reader = "auto"

[model]
layers = [
  { kind = "dense", units = 2, name = "" },
  { kind = "residual", layers = [
    { kind = "relu", name = "" },
  ], name = "r" },
]
)");
}

TEST_CASE("a key that stands behind a section in the struct is written before it", "[config]") {
  std::int64_t inner = 1, outer = 2;
  const auto describe = [&](ConfigVisitor& v) {
    v.section({.name = "table", .meaning = ""},
              [&](ConfigVisitor& t) { t.field({.name = "inner", .meaning = ""}, inner); });
    v.field({.name = "outer", .meaning = ""}, outer);
  };
  CHECK(effective_config(describe) == "outer = 2\n\n[table]\ninner = 1\n");
}

TEST_CASE("parsing the effective config gives the same settings", "[config]") {
  TestSettings before;
  before.epochs = 1000;
  before.smoothing = 1.0 / 3;
  before.timeout = 1e300;
  before.shuffle = false;
  before.milestones = {0.1, 5e-324, 3, 1e16, std::numeric_limits<double>::max()};
  before.path = "a \"quoted\" \\ path\twith\ncontrol \x01 characters and ünïcode";
  before.sizes = {std::numeric_limits<std::int64_t>::min(), -1, std::numeric_limits<std::int64_t>::max()};
  before.tags = {"", "x = 3", "[y]"};
  before.reader = "resident";
  before.layers.resize(2);
  before.layers[0].kind = "convolution";
  before.layers[0].kernel = {3, 5};
  before.layers[1].kind = "residual";
  before.layers[1].layers.resize(1);
  before.layers[1].layers[0].kind = "relu";
  const std::string text = effective_config(before.visitor());

  TestSettings after;
  parse_config({"config.toml", text, {}}, after.visitor());
  CHECK(after.epochs == before.epochs);
  CHECK(after.smoothing == before.smoothing);
  CHECK(after.timeout == before.timeout);
  CHECK(after.shuffle == before.shuffle);
  CHECK(after.milestones == before.milestones);
  CHECK(after.path == before.path);
  CHECK(after.sizes == before.sizes);
  CHECK(after.tags == before.tags);
  CHECK(after.layers.at(0).kernel == before.layers[0].kernel);
  CHECK(after.layers.at(1).layers.at(0).kind == "relu");
  CHECK(effective_config(after.visitor()) == text);
}

}  // namespace
}  // namespace unisono
