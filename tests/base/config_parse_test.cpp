#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "config_settings.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

TestSettings parse(const std::string& text, std::vector<std::string> overrides = {}) {
  TestSettings settings;
  parse_config({"runs/a.toml", text, std::move(overrides)}, settings.visitor());
  return settings;
}

/// What parsing complains of; empty where it does not.
std::string complaint(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    parse(text, std::move(overrides));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("every kind of value is read", "[config]") {
  const TestSettings settings = parse(R"(
    [train]
    epochs = 3
    smoothing = 0.25
    timeout = 2            # an integer where a number is wanted
    shuffle = false
    milestones = [1, 2.5]
    [data]
    path = "x.h5"
    sizes = [6, 4]
    tags = ["small", "grey"]
    reader = "streaming"
    [model]
    layers = [ { kind = "convolution", kernel = 5 }, { kind = "dense", units = 10, name = "last" } ]
  )");
  CHECK(settings.epochs == 3);
  CHECK(settings.smoothing == 0.25);
  CHECK(settings.timeout == 2.0);
  CHECK_FALSE(settings.shuffle);
  CHECK(settings.milestones == std::vector<double>{1, 2.5});
  CHECK(settings.path == "x.h5");
  CHECK(settings.sizes == std::vector<std::int64_t>{6, 4});
  CHECK(settings.tags == std::vector<std::string>{"small", "grey"});
  CHECK(settings.reader == "streaming");
  REQUIRE(settings.layers.size() == 2);
  CHECK(settings.layers[0].kernel == std::vector<std::int64_t>{5});
  CHECK(settings.layers[1].units == 10);
  CHECK(settings.layers[1].name == "last");
}

TEST_CASE("what is left out keeps its default", "[config]") {
  const TestSettings settings = parse(kData);
  CHECK(settings.epochs == 10);
  CHECK(settings.shuffle);
  CHECK(settings.milestones == std::vector<double>{0.5, 0.75});
  CHECK(settings.reader == "auto");
  CHECK(settings.layers.empty());
}

TEST_CASE("an array of tables may be written as [[…]], and nest", "[config]") {
  const TestSettings settings = parse(kData + R"(
    [[model.layers]]
    kind = "relu"
    [[model.layers]]
    kind = "residual"
    layers = [ { kind = "dense", units = 2 } ]
  )");
  REQUIRE(settings.layers.size() == 2);
  REQUIRE(settings.layers[1].layers.size() == 1);
  CHECK(settings.layers[1].layers[0].units == 2);
}

TEST_CASE("a wrong value is refused with its place, what it is and what it should be", "[config]") {
  const auto wrong = GENERATE(values<Wrong>({
      {"[train]\nepochs = 0", "2:10: 'epochs' in [train] is 0, but must be at least 1 and at most 1000"},
      {"[train]\n\n  epochs = 1001", "3:12: 'epochs' in [train] is 1001, but must be at least 1 and at most 1000"},
      {"[train]\nsmoothing = 1", "2:13: 'smoothing' in [train] is 1, but must be below 1"},
      {"[train]\ntimeout = 0.0", "2:11: 'timeout' in [train] is 0, but must be above 0 seconds"},
      {"[train]\ntimeout = nan", "2:11: 'timeout' in [train] is nan, but must be a finite number"},
      {"[train]\ntimeout = inf", "2:11: 'timeout' in [train] is inf, but must be a finite number"},
      {"[train]\nmilestones = [1,\n -2]", "3:2: 'milestones' in [train] is -2, but must be at least 0"},
      {"[train]\nepochs = 3.0", "2:10: 'epochs' in [train] must be an integer, not a floating-point number"},
      {"[train]\nepochs = '3'", "2:10: 'epochs' in [train] must be an integer, not the string '3'"},
      {"[train]\nepochs = [3]", "2:10: 'epochs' in [train] must be an integer, not an array"},
      {"[train]\ntimeout = true", "2:11: 'timeout' in [train] must be a number, not a boolean"},
      {"[train]\ntimeout = 2020-01-01", "2:11: 'timeout' in [train] must be a number, not a date or time"},
      {"[train]\nshuffle = 1", "2:11: 'shuffle' in [train] must be true or false, not an integer"},
      {"[train]\nmilestones = ['a']", "2:15: 'milestones' in [train] must be a number, not the string 'a'"},
      {"[data]\npath = 3", "2:8: 'path' in [data] must be a string, not an integer"},
      {"[data]\nsizes = {}", "2:9: 'sizes' in [data] must be an integer, not a table"},
      {"train = 3", "1:9: 'train' at the top level must be a table, not an integer"},
      {"[model]\nlayers = 3", "2:10: 'layers' in [model] must be an array of tables, not an integer"},
      {"[model]\nlayers = [3]", "2:11: 'layers' in [model] must be an array of tables, but element 0 is an integer"},
      {"[data]\nreader = 'steaming'",
       "2:10: 'reader' in [data] is 'steaming', which does not exist; did you mean 'streaming'? It is one of 'auto', "
       "'resident', 'streaming'"},
      {"[data]\nreader = 'magic'",
       "2:10: 'reader' in [data] is 'magic', which does not exist; it is one of 'auto', 'resident', 'streaming'"},
      {"[model]\nlayers = [{kind = 'danse'}]",
       "2:19: 'kind' in model.layers[0] is 'danse', which does not exist; did you mean 'dense'? It is one of 'dense', "
       "'convolution', 'relu', 'residual'"},
  }));
  CHECK(complaint(wrong.text) == "runs/a.toml:" + wrong.complaint);
}

TEST_CASE("an unknown key is refused with its place and the nearest known one", "[config]") {
  const auto wrong = GENERATE(values<Wrong>({
      {"sead = 1", "2:1: unknown key 'sead' at the top level; known here: 'data', 'model', 'train'"},
      {"trian.epochs = 1", "2:1: unknown key 'trian' at the top level; did you mean 'train'?"},
      {"[train]\nepoch = 1", "3:1: unknown key 'epoch' in [train]; did you mean 'epochs'?"},
      {"[train]\nmodel = 1",
       "3:1: unknown key 'model' in [train]; did you mean 'model' at the top level? Known here: 'epochs', "
       "'milestones', 'shuffle', 'smoothing', 'timeout'"},
      {"[train]\nepochs = 1\n  'time out' = 1", "4:3: unknown key 'time out' in [train]; did you mean 'timeout'?"},
      {"[[model.layers]]\nkind = 'dense'\nunits = 1\n[[model.layers]]\nkind = 'residual'\nlayers = [\n{ kind = "
       "'relu', nam = '' }]",
       "8:18: unknown key 'nam' in model.layers[1].layers[0]; did you mean 'name'?"},
      {"[[model.layers]]\nkind = 'relu'\nunits = 1",
       "4:1: unknown key 'units' in model.layers[0]; kind 'relu' has no such key, it is a key of 'dense'"},
  }));
  CHECK(complaint(kData + wrong.text) == "runs/a.toml:" + wrong.complaint);
}

TEST_CASE("a missing key is refused with its table, and a mistyped one is named rather", "[config]") {
  CHECK(complaint("") == "runs/a.toml: missing key 'path' in [data]: the HDF5 file");
  CHECK(complaint("\n[data]\nsizes = 1") == "runs/a.toml:2:1: missing key 'path' in [data]: the HDF5 file");
  CHECK(complaint("[dta]\npath = 'x'") == "runs/a.toml:1:2: unknown key 'dta' at the top level; did you mean 'data'?");
  CHECK(complaint("[data]\npaht = 'x'") == "runs/a.toml:2:1: unknown key 'paht' in [data]; did you mean 'path'?");
  CHECK(complaint(kData + "[[model.layers]]\nunits = 3") ==
        "runs/a.toml:2:1: missing key 'kind' in model.layers[0]: what the layer computes");
  CHECK(complaint(kData + "[model]\nlayers = [{ kind = 'dense' }]") ==
        "runs/a.toml:3:11: missing key 'units' in model.layers[0]: outputs, at least 1");
}

TEST_CASE("a broken rule is refused at its key", "[config]") {
  CHECK(complaint(kData + "[train]\nepochs = 1\nsmoothing = 0.1") ==
        "runs/a.toml:4:13: in [train]: smoothing needs more than one epoch; set epochs = 2");
  CHECK(complaint(kData + "[train]\nsmoothing = 0.1") == "");
}

/// A list of numbers, or a word.
struct WeightSettings {
  std::string word = "none";
  std::vector<double> values;
  Describe visitor() {
    return [this](ConfigVisitor& v) {
      v.numbers_or({.name = "weights", .meaning = "what counts", .range = at_least(0)}, values, word,
                   {{"none", "all alike"}, {"balanced", "by their share"}});
    };
  }
};

TEST_CASE("a key may hold a list of numbers or a word", "[config]") {
  const auto parsed = [](const std::string& text) {
    WeightSettings settings;
    parse_config({.path = "test.toml", .text = text, .overrides = {}}, settings.visitor());
    return settings;
  };
  CHECK(parsed("").word == "none");
  CHECK(parsed("weights = \"balanced\"").word == "balanced");
  CHECK(parsed("weights = [1, 0.5]").values == std::vector<double>{1, 0.5});
  CHECK(parsed("weights = 2").values == std::vector<double>{2});
  for (const std::string text : {"weights = [1.0, 0.5]\n", "weights = \"balanced\"\n"}) {
    WeightSettings settings = parsed(text);
    CHECK(effective_config(settings.visitor()) == text);
  }
  const auto message = [&](const std::string& text) -> std::string {
    try {
      parsed(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(message("weights = []") ==
        "test.toml:1:11: 'weights' at the top level is empty; use numbers, or one of 'none', 'balanced'");
  CHECK(message("weights = [1, -2]") == "test.toml:1:15: 'weights' at the top level is -2, but must be at least 0");
  CHECK(message("weights = [inf]") == "test.toml:1:12: 'weights' at the top level is inf, but must be a finite number");
  CHECK(message("weights = \"balance\"").find("did you mean 'balanced'?") != std::string::npos);
  WeightSettings settings;
  CHECK(config_reference(settings.visitor(), ReferenceFormat::text).find("string or list of numbers, at least 0") !=
        std::string::npos);
}

}  // namespace
}  // namespace unisono
