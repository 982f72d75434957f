#include "weights/tensor_rules.hpp"

#include <catch2/catch.hpp>

#include "unisono/base/errors.hpp"
#include "weights/tensor_order.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;

data::StoredTensors tensors_of(const std::vector<std::string>& names) {
  data::StoredTensors tensors;
  for (const std::string& name : names) tensors[name] = {.file = "f", .type = "F32", .shape = {1}, .name = name};
  return tensors;
}

/// The names in the file by those that rules give them.
std::vector<std::pair<std::string, std::string>> renamed(const std::vector<std::string>& names,
                                                         const std::vector<std::string>& rules) {
  std::vector<settings::TensorRule> parsed;
  for (const std::string& rule : rules) parsed.push_back(settings::parse_tensor_rule(rule));
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [here, tensor] : rename_tensors(tensors_of(names), parsed, "f").tensors)
    pairs.emplace_back(here, tensor.name);
  return pairs;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("each * stands for as little as possible, and is repeated in the name", "[tensor_rules]") {
  CHECK(renamed({"model.fc.bias"}, {"model.* = *"}) == Pairs{{"fc.bias", "model.fc.bias"}});
  CHECK(renamed({"h.1.fc.2.bias"}, {"h.*.fc.*.bias = block*.dense*.beta"}) ==
        Pairs{{"block1.dense2.beta", "h.1.fc.2.bias"}});
  CHECK(renamed({"a.a.a"}, {"*.a = *"}) == Pairs{{"a.a", "a.a.a"}});
  CHECK(renamed({"x.y.z"}, {"*.* = *_*"}) == Pairs{{"x_y.z", "x.y.z"}});
  CHECK(renamed({"aba"}, {"a*a = *"}) == Pairs{{"b", "aba"}});
  CHECK(renamed({"aa"}, {"a*a = x*"}) == Pairs{{"x", "aa"}});
  CHECK(renamed({"weight"}, {"weight = dense1.weight"}) == Pairs{{"dense1.weight", "weight"}});
  CHECK_THROWS_WITH(renamed({"a1", "b1"}, {"*1 = layer"}), Contains("'a1' and 'b1' are both called 'layer' here"));
}

TEST_CASE("the first rule that fits counts; others stay, or are left out", "[tensor_rules]") {
  const data::StoredTensors all = tensors_of({"fc.bias", "fc.weight", "n"});
  const RenamedTensors found = rename_tensors(all, {{"fc.bias", "b"}, {"fc.*", ""}}, "f");
  CHECK(found.left_out == std::vector<std::string>{"fc.weight"});
  CHECK(found.tensors.size() == 2);
  CHECK(found.tensors.at("b").name == "fc.bias");
  CHECK(found.tensors.contains("n"));
}

TEST_CASE("long names and patterns of many * take no time", "[tensor_rules]") {
  std::string pattern, name(100'000, 'a');
  for (int i = 0; i < 100; ++i) pattern += "*a";
  CHECK(renamed({name + "b", "n"}, {"n = m"}).size() == 2);
  CHECK_THROWS_WITH(renamed({name + "b"}, {pattern + " = x"}), Contains("no tensor of f fits"));
}

TEST_CASE("a tensor of two axes has the numbers of a block of more, if it has a row for each of its rows",
          "[tensor_order]") {
  CHECK(has_shape({10, 576}, {10, 4, 12, 12}));
  CHECK(has_shape({10, 4, 12, 12}, {10, 4, 12, 12}));
  CHECK(has_shape({10}, {10, 1, 1}));
  CHECK(has_shape({10, 1, 1, 1}, {10}));
  CHECK_FALSE(has_shape({576, 10}, {10, 4, 12, 12}));
  CHECK_FALSE(has_shape({10, 576}, {10, 24, 24, 2}));
  CHECK_FALSE(has_shape({}, {10}));
  CHECK_FALSE(has_shape({10, 4, 144}, {10, 4, 12, 12}));
  CHECK_FALSE(has_shape({5760}, {10, 4, 12, 12}));
}

}  // namespace unisono::session
