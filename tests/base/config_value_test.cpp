#include <catch2/catch.hpp>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

using Catch::Matchers::Contains;

/// A table with a key of any form.
struct AnySettings {
  ConfigValue space = {};
  void describe(ConfigVisitor& visitor) {
    visitor.section({.name = "search", .meaning = "a search"},
                    [this](ConfigVisitor& v) { v.any_value({.name = "space", .meaning = "what is varied"}, space); });
  }
  Describe visitor() {
    return [this](ConfigVisitor& v) { describe(v); };
  }
};

AnySettings parse_any(const std::string& text, std::vector<std::string> overrides = {}) {
  AnySettings settings;
  parse_config({"a.toml", text, std::move(overrides)}, settings.visitor());
  return settings;
}

TEST_CASE("a key may hold a value of any form, in the order of the file and with its places", "[config]") {
  const ConfigValue space = parse_any(R"([search.space]
"z.rate" = { log = [1e-4, 1] }
  b = [{ kind = "sgd", nesterov = true }, "x", []])")
                                .space;
  REQUIRE(space.table() != nullptr);
  CHECK(space.place == "a.toml:1:1");
  CHECK(toml_text(space) ==
        R"({ "z.rate" = { log = [0.0001, 1] }, b = [{ kind = "sgd", nesterov = true }, "x", []] })");
  CHECK(space.find("b")->place == "a.toml:3:7");
  CHECK(space.find("z.rate")->find("log")->array()->at(1).place == "a.toml:2:27");
  CHECK(space.find("c") == nullptr);
  CHECK(space.find("b")->find("kind") == nullptr);
  CHECK(space.find("b")->array()->at(0).find("kind")->value == decltype(ConfigValue::value)("sgd"));
}

TEST_CASE("a value knows whether it is a number", "[config]") {
  CHECK(ConfigValue{.value = std::int64_t{3}}.number() == 3.0);
  CHECK(ConfigValue{.value = 0.5}.number() == 0.5);
  CHECK_FALSE(ConfigValue{.value = true}.number());
  CHECK_FALSE(ConfigValue{.value = "3"}.number());
  CHECK_FALSE(ConfigValue{}.number());
}

TEST_CASE("values are equal wherever they stand", "[config]") {
  CHECK(parse_any("search.space = [1, { a = 2 }]").space == parse_any("search.space = [\n1, { a = 2 }]").space);
  CHECK_FALSE(parse_any("search.space = [1]").space == parse_any("search.space = [1.0]").space);
}

TEST_CASE("an override reaches into a value of any form, and comes last", "[config]") {
  const ConfigValue space =
      parse_any("search.space = { m = 1, n = [1, 2] }", {"search.space.a=2", "search.space.n.1=x"}).space;
  CHECK(toml_text(space) == R"({ m = 1, a = 2, n = [1, "x"] })");
  CHECK(space.find("a")->place == "--set search.space.a=2");
}

TEST_CASE("a value of any form is left as it is where the config has none, and dates are refused", "[config]") {
  CHECK(parse_any("").space == ConfigValue{});
  CHECK_THROWS_WITH(parse_any("search.space = { a = 2020-01-01 }"),
                    "a.toml:1:22: no key takes a date or time; write it as a string");
}

TEST_CASE("parsing what is written of a value of any form gives the same value", "[config]") {
  for (const std::string text : {"[search.space]\n\"a.b[1]\" = { log = [0.5, 1.0] }\nc = [{}, true]\n",
                                 "[search]\nspace = [1, { a = \"\\\"\" }]\n", "[search]\nspace = 3\n"}) {
    AnySettings settings = parse_any(text);
    CHECK(effective_config(settings.visitor()) == "\n" + text);
  }
  AnySettings empty;
  CHECK(effective_config(empty.visitor()) == "");
}

TEST_CASE("the reference names a key of any form with its default", "[config]") {
  AnySettings settings;
  CHECK_THAT(config_reference(settings.visitor(), ReferenceFormat::text),
             Contains("  space = {}\n      table: what is varied\n"));
}

}  // namespace
}  // namespace unisono
