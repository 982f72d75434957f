#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "config_settings.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

struct Changes {
  std::vector<std::string> overrides, removals;
};

struct Parsed {
  TestSettings settings;
  std::vector<std::string> notes;
};

Parsed parse_all(const std::string& text, const Changes& changes) {
  Parsed parsed;
  parsed.notes = parse_config({"runs/a.toml", text, changes.overrides, changes.removals}, parsed.settings.visitor());
  return parsed;
}

TestSettings parse_overridden(const std::string& text, std::vector<std::string> overrides) {
  return parse_all(text, {std::move(overrides), {}}).settings;
}

/// What parsing complains of; empty where it does not.
std::string override_complaint(const std::string& text, const Changes& changes) {
  try {
    parse_all(text, changes);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("an override wins over the text, and makes the section that the text lacks", "[config]") {
  const std::string text = kData + "[train]\nepochs = 3";
  CHECK(parse_overridden(text, {"train.epochs=4"}).epochs == 4);
  CHECK(parse_overridden(text, {"train.epochs=4", "train.epochs=5"}).epochs == 5);
  CHECK(parse_overridden("", {"data.path=y.h5", "train.epochs = 6"}).epochs == 6);
  CHECK(parse_overridden(text, {"train.milestones=[1, 2]"}).milestones == std::vector<double>{1, 2});
  CHECK(parse_overridden(text, {"train.timeout=1e-3"}).timeout == 1e-3);
}

TEST_CASE("an override's string needs no quotes, but may have them", "[config]") {
  CHECK(parse_overridden("", {"data.path=a=b.h5"}).path == "a=b.h5");
  CHECK(parse_overridden("", {"data.path=\"b c\""}).path == "b c");
  CHECK(parse_overridden("", {"data.path='c'"}).path == "c");
  CHECK(parse_overridden("", {"data.path=../d\\e \"f\".h5"}).path == "../d\\e \"f\".h5");
  CHECK(parse_overridden("", {"data.path=two\nlines = 3"}).path == "two\nlines = 3");
}

TEST_CASE("an override reaches into arrays by number", "[config]") {
  const std::string text =
      kData + "[train]\nmilestones = [1, 2]\n[model]\nlayers = [{kind = 'relu'}, {kind = 'dense', units = 1}]";
  CHECK(parse_overridden(text, {"model.layers.1.units=7"}).layers.at(1).units == 7);
  CHECK(parse_overridden(text, {"model.layers[1].units=7"}).layers.at(1).units == 7);
  CHECK(parse_overridden(text, {"train.milestones.0=5"}).milestones == std::vector<double>{5, 2});
  CHECK(parse_overridden(text, {"train.milestones[ 0 ]=5"}).milestones == std::vector<double>{5, 2});
}

TEST_CASE("a wrong override is refused by name", "[config]") {
  const auto wrong = GENERATE(values<Wrong>({
      {"train.epochs=0", "'epochs' in [train] is 0, but must be at least 1 and at most 1000"},
      {"train.epochs=three", "'epochs' in [train] must be an integer, not the string 'three'"},
      {"train.epoch=3", "unknown key 'epoch' in [train]; did you mean 'epochs'?"},
      {"trian.epochs=3", "unknown key 'trian' at the top level; did you mean 'train'?"},
      {"train.epochs", "a key and its value are expected, as in --set train.epochs=3"},
      {"=3", "a key is empty; write it as in --set train.epochs=3"},
      {"train..epochs=3", "a key is empty; write it as in --set train.epochs=3"},
      {"train.milestones=[1", "the array is not closed: the bracket ] is missing at its end"},
      {"data.path.x=3", "'path' is not a table, so it has no keys"},
      {"data.path.x.y=3", "'path' is not a table, so it has no keys"},
      {"data.sizes.2=3", "'2' is not an element of 'sizes', which has 2 elements, numbered from 0"},
      {"data.sizes.-1=3", "'-1' is not an element of 'sizes', which has 2 elements, numbered from 0"},
      {"data.sizes.1x=3", "'1x' is not an element of 'sizes', which has 2 elements, numbered from 0"},
      {"data.sizes.0=x", "'sizes' in [data] must be an integer, not the string 'x'"},
      {"train.smoothing=0.5", "in [train]: smoothing needs more than one epoch; set epochs = 2"},
  }));
  const std::string text = "[data]\npath = 'x.h5'\nsizes = [1, 2]\n[train]\nepochs = 1";
  CHECK(override_complaint(text, {{wrong.text}, {}}) == "--set " + wrong.text + ": " + wrong.complaint);
}

const std::string kDense = kData + "[[model.layers]]\nkind = 'dense'\nunits = 3\nname = 'a'\n";

TEST_CASE("an override of a kind drops what the file says for its own kind alone, and says so", "[config]") {
  const Parsed parsed = parse_all(kDense, {{"model.layers.0.kind=relu"}, {}});
  CHECK(parsed.settings.layers.at(0).kind == "relu");
  CHECK(parsed.settings.layers.at(0).name == "a");
  CHECK(parsed.notes ==
        std::vector<std::string>{"--set model.layers.0.kind=relu: units of the file's dense is dropped"});
}

TEST_CASE("what other kinds than the file's have, and what overrides give, is not dropped", "[config]") {
  const std::string refused =
      "unknown key 'units' in model.layers[0]; kind 'relu' has no such key, it is a key of "
      "'dense'";
  CHECK(override_complaint(kDense, {{"model.layers.0.kind=relu", "model.layers.0.units=4"}, {}}) ==
        "--set model.layers.0.units=4: " + refused);
  CHECK(override_complaint(kData + "[[model.layers]]\nkind = 'convolution'\nunits = 3",
                           {{"model.layers.0.kind=relu"}, {}}) == "runs/a.toml:4:1: " + refused);
  CHECK(override_complaint(kData + "[[model.layers]]\nkind = 'relu'\nunits = 3", {}) == "runs/a.toml:4:1: " + refused);
}

TEST_CASE("an override that chooses the file's own kind drops nothing", "[config]") {
  const Parsed parsed = parse_all(kDense, {{"model.layers.0.kind=dense"}, {}});
  CHECK(parsed.settings.layers.at(0).units == 3);
  CHECK(parsed.notes.empty());
}

TEST_CASE("a branch of layers is dropped as a whole, and never with an override in it", "[config]") {
  const std::string text = kData + "[[model.layers]]\nkind = 'residual'\nlayers = [{ kind = 'dense', units = 2 }]\n";
  CHECK(parse_all(text, {{"model.layers.0.kind=relu"}, {}}).notes ==
        std::vector<std::string>{"--set model.layers.0.kind=relu: layers of the file's residual is dropped"});
  CHECK(override_complaint(text, {{"model.layers.0.layers.0.units=3", "model.layers.0.kind=relu"}, {}})
            .find("unknown key") != std::string::npos);
}

TEST_CASE("a key that is removed has its default, or what an override gives it", "[config]") {
  const std::string text = kData + "[train]\nepochs = 3\nsmoothing = 0.1\n";
  CHECK(parse_all(text, {{}, {"train.epochs"}}).settings.epochs == 10);
  CHECK(parse_all(text, {{"train.epochs=5"}, {"train.epochs"}}).settings.epochs == 5);
  CHECK(parse_all(text, {{}, {"train"}}).settings.smoothing == 0);
  CHECK(parse_all(text, {{}, {" train . epochs ", "train.smoothing"}}).settings.epochs == 10);
}

TEST_CASE("elements are removed by their numbers in the file, in any order", "[config]") {
  std::string text = kData + "[train]\nmilestones = [0";
  for (int i = 1; i < 12; ++i) text += ", " + std::to_string(i);
  CHECK(parse_all(text + "]", {{}, {"train.milestones.2", "train.milestones.11", "train.milestones.0"}})
            .settings.milestones == std::vector<double>{1, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST_CASE("a key that cannot be removed is refused by name", "[config]") {
  const auto wrong = GENERATE(values<Wrong>({
      {"train.epochs", "the config file has no such key"},
      {"data.path.x", "the config file has no such key"},
      {"data.sizes.2", "the config file has no such key"},
      {"train.epochs=3", "a key without a value is expected, as in --unset train.epochs"},
      {"", "a key is empty; write it as in --unset train.epochs"},
      {"data..path", "a key is empty; write it as in --unset train.epochs"},
  }));
  CHECK(override_complaint("[data]\npath = 'x.h5'\nsizes = [1, 2]", {{}, {wrong.text}}) ==
        "--unset " + wrong.text + ": " + wrong.complaint);
}

TEST_CASE("an unknown key that is known elsewhere is said to be there", "[config]") {
  const auto wrong = GENERATE(values<Wrong>({
      {"epochs=3", "unknown key 'epochs' at the top level; did you mean 'train.epochs'?"},
      {"ephocs=3", "unknown key 'ephocs' at the top level; did you mean 'train.epochs'?"},
      {"units=3", "unknown key 'units' at the top level; did you mean 'model.layers.N.units'?"},
      {"data.timeout=3", "unknown key 'timeout' in [data]; did you mean 'train.timeout'?"},
      {"layers=[]", "unknown key 'layers' at the top level; did you mean 'model.layers' or 'model.layers.N.layers'?"},
      {"data.nothing=3", "unknown key 'nothing' in [data]; known here: 'path', 'reader', 'sizes', 'tags'"},
  }));
  CHECK(override_complaint(kData, {{wrong.text}, {}}) == "--set " + wrong.text + ": " + wrong.complaint);
  CHECK(override_complaint(kData + "[train]\npath = 3", {}) ==
        "runs/a.toml:3:1: unknown key 'path' in [train]; did you mean 'data.path'?");
}

}  // namespace
}  // namespace unisono
