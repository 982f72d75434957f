#include "unisono/base/config.hpp"

#include <catch2/catch.hpp>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

ConfigTree tree_of(const std::string& text, std::vector<std::string> overrides = {}) {
  return config_tree({"a.toml", text, std::move(overrides)});
}

TEST_CASE("a config is a list of keys, of which a list or a table in braces is one", "[config]") {
  const ConfigTree tree = tree_of(
      "seed = 3\n[model]\nlayers = [\n  { kind = \"relu\" },\n]\n[data.augmentation]\nshift = 1\n"
      "[search.space]\n\"train.epochs\" = { log = [1, 9] }\n",
      {"data.augmentation.shift=2"});
  REQUIRE(tree.size() == 4);
  CHECK(toml_text(tree.at("seed")) == "3");
  CHECK(toml_text(tree.at("model.layers")) == "[{ kind = \"relu\" }]");
  CHECK(toml_text(tree.at("data.augmentation.shift")) == "2");
  CHECK(toml_text(tree.at("search.space.\"train.epochs\"")) == "{ log = [1, 9] }");
  CHECK_THROWS_AS(tree_of("seed = "), ConfigError);
}

TEST_CASE("two configs are compared key by key, however they are written", "[config]") {
  const ConfigTree before = tree_of("a = 1\nb = 0.1\nc = [1, 2]\n[d]\nsame = \"x\"\ngone = true\n");
  const ConfigTree after = tree_of("b = 0.2\na = 1\nc = [\n  1,\n  3\n]\nd.same = 'x'\nd.made = 1\n");
  CHECK(differences(before, before).empty());
  const auto found = differences(before, after);
  REQUIRE(found.size() == 4);
  CHECK(found[0].key == "b");
  CHECK(toml_text(*found[0].before) == "0.1");
  CHECK(toml_text(*found[0].after) == "0.2");
  CHECK(found[1].key == "c");
  CHECK(found[2].key == "d.gone");
  CHECK_FALSE(found[2].after);
  CHECK(found[3].key == "d.made");
  CHECK_FALSE(found[3].before);
}

}  // namespace
}  // namespace unisono
