#include "unisono/search/space.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "search_helpers.hpp"

namespace unisono::search {
namespace {

using Catch::Matchers::EndsWith;

/// "optimizer.learning_rate=0.1 model.layers.3.units=128"
std::string text_at(const Space& space, const Point& point) {
  std::string text;
  for (const Assignment& assignment : space.at(point)) text += (text.empty() ? "" : " ") + assignment.override_text();
  return text;
}

Point point_of(const Space& space, const std::string& values) {
  return space.point_of(
      search_settings("[search]\nmethod = \"grid\"\nspace = { a = [1] }\nbaselines = [" + values + "]")
          .baselines.at(0));
}

TEST_CASE("keys in quotes and nested tables are the same paths, in the order of the file", "[search]") {
  const Space space = space_of(R"(
    "train.batch_size" = [8, 16]
    optimizer.learning_rate = { linear = [0, 1] }
    "model.layers[3].units" = [128, 256]
    model."layers[0]".rates = [0.5])");
  CHECK(text_at(space, {0.9, 0.25, 0, 0}) ==
        "train.batch_size=16 optimizer.learning_rate=0.25 model.layers.3.units=128 model.layers.0.rates=0.5");
}

TEST_CASE("the values at u are the inverse of the distribution function", "[search]") {
  const Space space = space_of(R"(
    a = { linear = [-1, 3] }
    b = { log = [1e-4, 1] }
    c = { integers = [16, 60], step = 16 }
    d = { integers = [1, 3], log = true }
    e = ["x", true, 2])");
  CHECK(text_at(space, {0, 0, 0, 0, 0}) == "a=-1.0 b=0.0001 c=16 d=1 e=\"x\"");
  // c is one of 16, 32, 48, each with a third; d is below 2 where u < log(2)/log(4) = 1/2, below 3 where u < 0.7925
  CHECK(text_at(space, {0.25, 0.5, 0.34, 0.51, 0.34}) == "a=0.0 b=0.01 c=32 d=2 e=true");
  CHECK(text_at(space, {1 - 0x1p-53, 1 - 0x1p-53, 1 - 0x1p-53, 0.8, 0.99}) == "a=3.0 b=1.0 c=48 d=3 e=2");
  CHECK(text_at(space, {1.0 / 3, 1.0 / 7, 0, 0, 0}) == "a=0.333333 b=0.000372759 c=16 d=1 e=\"x\"");
}

TEST_CASE("the place of each value gives the value again", "[search]") {
  const Space space = space_of(R"(
    a = { linear = [-1, 3] }
    b = { log = [1e-4, 1] }
    c = { integers = [-100, 200], step = 7 }
    d = { integers = [1, 100000], log = true }
    e = ["x", true, 2, [1]])");
  const auto& parameters = space.parameters();
  for (const Parameter& p : parameters) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(p.values(), 2000); ++i) {
      REQUIRE(p.index(p.middle(i)) == i);
      REQUIRE(p.place_of(p.at(p.middle(i))) == p.middle(i));
    }
  }
  for (const double x : {-1.0, -0.5, 0.1, 0.3, 2.99999, 3.0}) {
    CHECK(parameters[0].at(*parameters[0].place_of({.value = x})).number() == x);
  }
  for (const double x : {1e-4, 0.00123457, 0.1, 0.9, 1.0}) {
    CHECK(parameters[1].at(*parameters[1].place_of({.value = x})).number() == x);
    CHECK(*parameters[1].place_of({.value = x}) < 1);
  }
  CHECK_FALSE(parameters[0].place_of({.value = 3.1}));
  CHECK_FALSE(parameters[0].place_of({.value = "x"}));
  CHECK_FALSE(parameters[2].place_of({.value = std::int64_t{-99}}));
  CHECK_FALSE(parameters[4].place_of({.value = std::int64_t{3}}));
}

const std::string kOptimizers = R"(
  "optimizer" = [
    { kind = "sgd", momentum = { linear = [0, 0.8] } },
    { kind = "adamw", betas = [0.9, 0.99], extra = { decay = { choices = [0, 1] } } } ]
  "train.batch_size" = [8, 16])";

TEST_CASE("a distribution in a table is drawn where the table is chosen", "[search]") {
  const Space space = space_of(kOptimizers);
  std::vector<std::string> keys;
  for (const Parameter& p : space.parameters()) keys.push_back(p.key);
  CHECK(keys ==
        std::vector<std::string>{"optimizer", "optimizer[0].momentum", "optimizer[1].extra.decay", "train.batch_size"});
  const Point sgd = {0.2, 0.5, 0.9, 0}, adam = {0.6, 0.5, 0.9, 0};
  CHECK(text_at(space, sgd) == R"(optimizer={ kind = "sgd", momentum = 0.4 } train.batch_size=8)");
  CHECK(text_at(space, adam) ==
        R"(optimizer={ kind = "adamw", betas = [0.9, 0.99], extra = { decay = 1 } } train.batch_size=8)");
  CHECK(space.is_active(1, sgd));
  CHECK_FALSE(space.is_active(2, sgd));
  CHECK_FALSE(space.is_active(1, adam));
  CHECK(space.is_active(3, adam));
}

TEST_CASE("choices nest, also in lists of tables", "[search]") {
  const Space space = space_of(R"(
    "model.layers" = [
      [{ kind = "dense", units = { choices = [8, 16] } }, { kind = "dense" }],
      [{ kind = "dropout", rate = { choices = [0.5, { linear = [0, 0.1] }] } }] ])");
  REQUIRE(space.parameters().size() == 4);
  CHECK(text_at(space, {0, 0.9, 0, 0}) == R"(model.layers=[{ kind = "dense", units = 16 }, { kind = "dense" }])");
  CHECK(text_at(space, {0.9, 0, 0, 0}) == R"(model.layers=[{ kind = "dropout", rate = 0.5 }])");
  CHECK(text_at(space, {0.9, 0, 0.9, 0.5}) == R"(model.layers=[{ kind = "dropout", rate = 0.05 }])");
  CHECK_FALSE(space.is_active(3, {0, 0, 0.9, 0}));  // what it depends on is itself not drawn
}

TEST_CASE("whole tables come before the keys that lie within them", "[search]") {
  const Space space = space_of(R"(
    "optimizer.learning_rate" = [0.1]
    "model.layers.0" = [{ kind = "dense" }]
    "model" = [{ kind = "network", layers = [] }]
    "optimizer" = [{ kind = "sgd" }])");
  CHECK(text_at(space, {0, 0, 0, 0}) ==
        R"(model={ kind = "network", layers = [] } optimizer={ kind = "sgd" } model.layers.0={ kind = "dense" } )"
        "optimizer.learning_rate=0.1");
}

TEST_CASE("the values are overrides that a config takes", "[search]") {
  const Space space = space_of(R"(
    "optimizer.learning_rate" = [0.1]
    "optimizer" = [{ kind = "s=g", "a b" = { linear = [0, 1] } }]
    "model.layers[1].units" = { integers = [8, 9] }
    "data.path" = ["with \"quotes\"", "x"])");
  std::vector<std::string> overrides;
  for (const Assignment& assignment : space.at({0, 0, 0.5, 0.9, 0})) overrides.push_back(assignment.override_text());
  ConfigValue optimizer, model, data;
  unisono::parse_config({"a.toml", "model.layers = [{}, { units = 3 }]\noptimizer.kind = 1", overrides},
                        [&](ConfigVisitor& v) {
                          v.any_value({.name = "optimizer", .meaning = ""}, optimizer);
                          v.any_value({.name = "model", .meaning = ""}, model);
                          v.any_value({.name = "data", .meaning = ""}, data);
                        });
  CHECK(optimizer.find("kind")->value == decltype(ConfigValue::value)("s=g"));
  CHECK(optimizer.find("a b")->number() == 0.5);
  CHECK(optimizer.find("learning_rate")->number() == 0.1);
  CHECK(toml_text(model) == "{ layers = [{}, { units = 9 }] }");
  CHECK(data.find("path")->value == decltype(ConfigValue::value)("with \"quotes\""));
}

TEST_CASE("the grid has each combination of what is drawn once, the last key fastest", "[search]") {
  const Space space = space_of(kOptimizers + "\n c = { integers = [1, 2] }");
  const Space finite = space_of(R"(
    "optimizer" = [{ kind = "sgd" }, { kind = "adamw", decay = { choices = [0, 1] } }]
    "train.batch_size" = { integers = [8, 16], step = 8 })");
  std::vector<std::string> texts;
  for (const Point& point : finite.grid()) texts.push_back(text_at(finite, point));
  CHECK(texts == std::vector<std::string>{R"(optimizer={ kind = "sgd" } train.batch_size=8)",
                                          R"(optimizer={ kind = "sgd" } train.batch_size=16)",
                                          R"(optimizer={ kind = "adamw", decay = 0 } train.batch_size=8)",
                                          R"(optimizer={ kind = "adamw", decay = 0 } train.batch_size=16)",
                                          R"(optimizer={ kind = "adamw", decay = 1 } train.batch_size=8)",
                                          R"(optimizer={ kind = "adamw", decay = 1 } train.batch_size=16)"});
  CHECK(complaint_of([&] { space.grid(); }) ==
        "search.method = \"grid\" needs finitely many values, but 'optimizer[0].momentum' in [search.space] takes any "
        "number from 0 to 0.8: give it a list of choices, or use method = \"random\"");
  const Space large = space_of("a = { integers = [1, 1000] }\nb = { integers = [0, 1000] }");
  CHECK(complaint_of([&] { large.grid(); }) ==
        "the grid of [search.space] has more than 1,000,000 points: vary fewer keys, or use method = \"random\"");
}

TEST_CASE("numbers that steps do not reach, and fewer points than trials, are said", "[search]") {
  const auto notes = [](const std::string& space, std::int64_t trials) { return notes_on(space_of(space), trials); };
  CHECK(notes("\"train.batch_size\" = { integers = [16, 256], step = 16 }", 0).empty());
  const std::vector<std::string> ends = notes("\"train.batch_size\" = { integers = [16, 250], step = 64 }", 0);
  REQUIRE(ends.size() == 1);
  CHECK_THAT(ends[0], EndsWith("'train.batch_size': steps of 64 from 16 end at 208, and do not reach 250"));
  const std::string three = "seed = [1, 2, 3]";
  CHECK(notes(three, 0).empty());
  CHECK(notes(three, 3).empty());
  REQUIRE(notes(three, 12).size() == 1);
  CHECK_THAT(notes(three, 12)[0], Catch::Contains("has only 3 points, of which 12 trials are drawn"));
  CHECK(notes(three + "\nrate = { log = [1e-3, 1] }", 12).empty());
}

TEST_CASE("values given by hand are a point of the space", "[search]") {
  const Space space = space_of(kOptimizers);
  const std::string given = R"({ train.batch_size = 16, optimizer = { momentum = 0.4, kind = "sgd" } })";
  CHECK(text_at(space, point_of(space, given)) == R"(optimizer={ kind = "sgd", momentum = 0.4 } train.batch_size=16)");
  const std::string adam =
      R"({ "train.batch_size" = 8, optimizer = { kind = "adamw", betas = [0.9, 0.99], extra = { decay = 1 } } })";
  CHECK(text_at(space, point_of(space, adam)) ==
        R"(optimizer={ kind = "adamw", betas = [0.9, 0.99], extra = { decay = 1 } } train.batch_size=8)");
}

TEST_CASE("values given by hand that the space does not have are refused", "[search]") {
  const Space space = space_of(kOptimizers + "\nx = { integers = [2, 9], step = 3 }");
  const auto complaint = [&](const std::string& values) { return complaint_of([&] { point_of(space, values); }); };
  CHECK(complaint(R"({ "train.batch_size" = 8 })") ==
        "s.toml:4:14: a trial of search.baselines lacks 'optimizer', which [search.space] varies");
  CHECK(complaint(R"({ "train.epochs" = 8 })") ==
        "s.toml:4:33: 'train.epochs' in search.baselines is not varied by [search.space]; remove it, or add it there");
  CHECK_THAT(
      complaint(R"({ optimizer = { kind = "sgd", momentum = 0.9 } })"),
      EndsWith(R"('optimizer' in search.baselines is { kind = "sgd", momentum = 0.9 }, which [search.space] does )"
               R"(not have; it is one of its choices: { kind = "sgd", momentum = { linear = [0, 0.8] } } or )"
               R"({ kind = "adamw", betas = [0.9, 0.99], extra = { decay = { choices = [0, 1] } } })"));
  CHECK_THAT(
      complaint(R"({ optimizer = { kind = "sgd", momentum = 0.1 }, train.batch_size = 8, x = 3 })"),
      EndsWith("'x' in search.baselines is 3, which [search.space] does not have; it is a whole number, at least "
               "2 and at most 8, in steps of 3"));
}

struct WrongSpace {
  std::string entries, complaint;
};

TEST_CASE("what is no distribution is refused with its place, what it is and what to do", "[search]") {
  const auto wrong = GENERATE(values<WrongSpace>({
      {"a = 0.1",
       "4:5: 'a' in [search.space] is 0.1, which does not vary: write { linear = [0, 1] }, { log = [1e-4, 1] }, { "
       "integers = [1, 8] } or a list of choices; a fixed value belongs to the rest of the config"},
      {"a = { logg = [1e-4, 1] }",
       "4:14: 'a' in [search.space] is drawn as 'logg', which does not exist; did you mean 'log'?"},
      {"a.b = [{ c = { liner = [0, 1] } }]",
       "4:24: 'a.b[0].c' in [search.space] is drawn as 'liner', which does not exist; did you mean 'linear'?"},
      {"a = { log = [1e-4, 1], stop = 3 }",
       "4:31: 'a' in [search.space] has an unknown key 'stop' beside 'log'; it is one of 'log'"},
      {"a = { integers = [1, 4], steps = 3 }",
       "4:34: 'a' in [search.space] has an unknown key 'steps' beside 'integers'; did you mean 'step'?"},
      {"a = { log = [1, 4], linear = [0, 1] }",
       "4:13: 'a' in [search.space] is drawn both as 'log' and as 'linear'; remove one of them"},
      {"a = {}", "4:5: 'a' in [search.space] is empty: write { linear = [0, 1] } or a list of choices"},
      {"a = []", "4:5: 'a' in [search.space] has no choices; give at least one, or remove the key"},
      {"a = [1, 2, 1]", "4:12: 'a' in [search.space] has the choice 1 twice; remove one"},
      {"a = { log = [0, 1] }",
       "4:13: 'a' in [search.space] has no logarithm at its smallest value, which must be above 0; for others, use "
       "linear"},
      {"a = { log = 3 }", "4:13: 'a' in [search.space] takes the smallest and the largest value: log = [1, 8]"},
      {"a = { linear = [1, 0] }",
       "4:16: 'a' in [search.space] is [1, 0], but the first number must be below the second"},
      {"a = { linear = [0, inf] }", "4:16: 'a' in [search.space] must have finite ends"},
      {"a = { linear = [-1e308, 1e308] }", "4:16: 'a' in [search.space] has too wide a range"},
      {"a = { integers = [0.5, 1] }",
       "4:18: 'a' in [search.space] takes whole numbers: integers = [1, 8]; for others, use linear or log"},
      {"a = { integers = [1, 4], step = 4 }",
       "4:33: 'a' in [search.space] needs a step that is a whole number, at least 1 and at most the range"},
      {"a = { integers = [1, 4], log = 2 }", "4:32: 'a' in [search.space] takes true or false for log beside integers"},
      {"a = { choices = 3 }", "4:17: 'a' in [search.space] takes a list of choices: choices = [1, 2]"},
      {"a.b = [1]\n\"a.b\" = [2]", "5:9: 'a.b' in [search.space] is given twice; remove one"},
      {"a = [1, 2]\n\"a.b\" = [2]", "5:9: 'a.b' in [search.space] lies within 'a', which is no table; remove one"},
      {"a = [{ c = 1 }, { b = 1 }]\n\"a.b\" = [2]",
       "5:9: 'a.b' in [search.space] is also given by the choice { b = 1 } of 'a'; remove one"},
      {"\"a..b\" = [1]",
       "4:10: 'a..b' is no path of a key; write it as \"train.batch_size\" or \"model.layers[3].units\""},
      {"\"a[x]\" = [1]",
       "4:10: 'a[x]' is no path of a key; write it as \"train.batch_size\" or \"model.layers[3].units\""},
  }));
  CHECK(complaint_of([&] { space_of(wrong.entries); }) == "s.toml:" + wrong.complaint);
}

}  // namespace
}  // namespace unisono::search
