#include <catch2/catch.hpp>
#include <string>

#include "config_settings.hpp"
#include "unisono/base/config.hpp"

namespace unisono {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("the reference says meaning, unit, default and range of every key", "[config]") {
  TestSettings settings;
  const std::string text = config_reference(settings.visitor(), ReferenceFormat::text);
  CHECK_THAT(text, Contains("[train]  how long | and how\n"));
  CHECK_THAT(text,
             Contains("  epochs = 10\n      integer, at least 1 and at most 1000: passes over the training set\n"));
  CHECK_THAT(text, Contains("  timeout = 60.0\n      number, above 0 (seconds): patience\n"));
  CHECK_THAT(text, Contains("  path, required\n      string: the HDF5 file\n"));
  CHECK_THAT(text, Contains("  milestones = [0.5, 0.75]\n      number or list, at least 0: where the rate drops\n"));
  CHECK_THAT(text, Contains("        streaming             in chunks\n"));
  CHECK_THAT(text, Contains("  units, required\n      integer, at least 1: outputs\n      only for dense\n"));
}

TEST_CASE("the Markdown reference is one table for each section", "[config]") {
  TestSettings settings;
  const std::string text = config_reference(settings.visitor(), ReferenceFormat::markdown);
  CHECK_THAT(text, Contains("\n## `[train]`\n\nhow long | and how.\n"));
  CHECK_THAT(text, Contains("| `timeout` | patience | number | seconds | `60.0` | above 0 |\n"));
  CHECK_THAT(text, Contains("| `path` | the HDF5 file | string |  | required |  |\n"));
  CHECK_THAT(text, Contains("how it is read<br>`auto`: as it fits<br>`resident`: at once<br>`streaming`: in chunks"));
  CHECK_THAT(text, Contains("| `kernel` | its size (only for `convolution`) | integer or list | pixels |"));
}

TEST_CASE("a list of elements that hold such lists is described once", "[config]") {
  TestSettings settings;
  const std::string text = config_reference(settings.visitor(), ReferenceFormat::markdown);
  CHECK_THAT(text, Contains("## `[[model.layers]]`"));
  CHECK_THAT(text, Contains("| `layers` | the branch (only for `residual`) | array of tables like model.layers |"));
  CHECK_THAT(text, !Contains("model.layers.layers"));
  CHECK(settings.layers.empty());
}

TEST_CASE("a key that several kinds share is described once, with all of them", "[config]") {
  std::string kind = "sgd";
  double decay = 0;
  const auto with_decay = [&](ConfigVisitor& v) { v.field({.name = "decay", .meaning = "of weights"}, decay); };
  const auto describe = [&](ConfigVisitor& v) {
    v.variant({.name = "kind", .meaning = "the rule"}, kind,
              {{"sgd", "plain", with_decay}, {"adam", "adaptive", with_decay}});
  };
  const std::string text = config_reference(describe, ReferenceFormat::markdown);
  CHECK_THAT(text, Contains("| `decay` | of weights (only for `sgd`, `adam`) | number |"));
  CHECK(text.find("`decay`") == text.rfind("`decay`"));
}

TEST_CASE("bars in a cell do not end it", "[config]") {
  std::string value = "a|b";
  const auto describe = [&](ConfigVisitor& v) { v.field({.name = "key", .meaning = "one | two"}, value); };
  CHECK_THAT(config_reference(describe, ReferenceFormat::markdown), Contains("| one \\| two |"));
  CHECK_THAT(config_reference(describe, ReferenceFormat::markdown), Contains("`\"a\\|b\"`"));
}

}  // namespace
}  // namespace unisono
