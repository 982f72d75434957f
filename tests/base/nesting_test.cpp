#include "unisono/base/nesting.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST_CASE("256 levels of JSON are read, and one more is refused", "[nesting]") {
  const std::string deep = repeated("[", kMostNested) + repeated("]", kMostNested);
  CHECK(shallow_json(deep, "a.json") == deep);
  CHECK(shallow_json("[" + deep.substr(1) + "\n" + deep, "a.json").size() == 2 * deep.size() + 1);
  CHECK_THROWS_AS(shallow_json("[" + deep + "]", "a.json"), DataError);
  CHECK_THROWS_AS(shallow_json(repeated("{\"a\":", kMostNested + 1), "a.json"), DataError);
  const std::string text = "\"\\\"" + repeated("[", 1000) + "\"";
  CHECK(shallow_json(text, "a.json") == text);
}

TEST_CASE("levels of TOML are steps of keys, tables and arrays", "[nesting]") {
  const std::string steps = repeated("a.", kMostNested);
  for (const std::string text : {"x = \"\"\"a\"\"\"\"\n", "x = \"\"\"a\"\"\"\"\"\n", "x = '''a''''\n"}) {
    CHECK(where_toml_is_too_deep(text + steps + "a.a = 1"));  // long strings that end in quotes of their own
    CHECK_FALSE(where_toml_is_too_deep(text + steps + "a = 1"));
  }
  CHECK_FALSE(where_toml_is_too_deep(steps + "a = 1"));
  CHECK(where_toml_is_too_deep("x = 1\n" + steps + "a.a = 1") == 6 + steps.size() + 1);
  const std::string half = repeated("a.", kMostNested / 2);
  CHECK_FALSE(where_toml_is_too_deep("[" + half + "a]\nx = 1\n[" + half + "b]\nx = 1\n"));
  CHECK(where_toml_is_too_deep("[" + half + "a]\n" + half + "a = 1"));
  CHECK(where_toml_is_too_deep(half + "a = { " + half + "b = 1 }"));
  CHECK_FALSE(where_toml_is_too_deep(half + "a = [{ b = 1.5 }, { b = 1.5 }]\n" + half + "b = 1"));
  CHECK(where_toml_is_too_deep("x = " + repeated("[", kMostNested + 1)));
  CHECK(where_toml_is_too_deep("x = " + repeated("[{ a = ", kMostNested)));
  CHECK_FALSE(where_toml_is_too_deep("x = \"" + repeated("[.", 1000) + "\" # " + repeated("[.", 1000)));
  CHECK_FALSE(where_toml_is_too_deep("x = '''\n" + repeated("[.", 1000) + "'''\ny = \"\"\"\\\"\n[[[\"\"\""));
  CHECK_FALSE(where_toml_is_too_deep("x = [" + repeated("1.5, ", 1000) + "]"));
}

}  // namespace
}  // namespace unisono
