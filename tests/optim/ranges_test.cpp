#include "update_rule.hpp"

#include <catch2/catch.hpp>

namespace unisono::optim {
namespace {

ParameterLayout make_layout(const std::vector<Role>& roles) {
  ParameterLayout layout;
  for (const Role role : roles) {
    Block block;
    block.name = "block" + std::to_string(layout.blocks().size());
    block.shape = {20};  // and 12 floats of padding behind it
    block.role = role;
    layout.add(block);
  }
  return layout;
}

const ParameterLayout two_layers = make_layout({Role::weight, Role::bias, Role::norm, Role::weight, Role::bias});

void check_covers_without_gaps(const std::vector<kernels::UpdateRange>& ranges, const ParameterLayout& layout) {
  REQUIRE(!ranges.empty());
  CHECK(ranges.front().first == 0);
  for (std::size_t i = 1; i < ranges.size(); ++i) CHECK(ranges[i].first == ranges[i - 1].last);
  CHECK(ranges.back().last == layout.size());
}

}  // namespace

TEST_CASE("without weight decay the whole vector is one range", "[ranges]") {
  const auto ranges = make_ranges(two_layers, {});
  REQUIRE(ranges.size() == 1);
  CHECK(!ranges[0].decays);
  check_covers_without_gaps(ranges, two_layers);
}

TEST_CASE("decay of everything needs one range too", "[ranges]") {
  const auto ranges = make_ranges(two_layers, {.decay = true, .rule = DecayRule::all});
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].decays);
}

TEST_CASE("biases and norms are left out of the decay, and neighbours of the same kind are merged", "[ranges]") {
  const auto ranges = make_ranges(two_layers, {.decay = true});
  REQUIRE(ranges.size() == 4);  // weight | bias norm | weight | bias
  CHECK(ranges[0].decays);
  CHECK(!ranges[1].decays);
  CHECK(ranges[1].first == 32);
  CHECK(ranges[1].last == 96);
  CHECK(ranges[2].decays);
  CHECK(!ranges[3].decays);
  check_covers_without_gaps(ranges, two_layers);
}

TEST_CASE("a table of tokens decays as weights do, unless the rule leaves it out", "[ranges]") {
  const ParameterLayout layout = make_layout({Role::embedding, Role::weight, Role::norm});
  const auto decaying = [&](DecayRule rule) {
    std::vector<bool> decays;
    for (const auto& range : make_ranges(layout, {.decay = true, .rule = rule})) decays.push_back(range.decays);
    return decays;
  };
  CHECK(decaying(DecayRule::weights) == std::vector<bool>{true, false});  // embedding weight | norm
  CHECK(decaying(DecayRule::without_embeddings) == std::vector<bool>{false, true, false});
  CHECK(decaying(DecayRule::all) == std::vector<bool>{true});
  CHECK(make_ranges(layout, {.adapt_weights = true})[0].adapted);
}

TEST_CASE("two blocks of weights side by side share a decaying range, but never a trust ratio", "[ranges]") {
  const ParameterLayout layout = make_layout({Role::weight, Role::weight, Role::bias, Role::norm});
  CHECK(make_ranges(layout, {.decay = true}).size() == 2);

  const auto adapted = make_ranges(layout, {.adapt_weights = true});
  REQUIRE(adapted.size() == 3);
  CHECK(adapted[0].adapted);
  CHECK(adapted[1].adapted);
  CHECK(!adapted[2].adapted);
  check_covers_without_gaps(adapted, layout);
}

TEST_CASE("a model without parameters has no ranges", "[ranges]") {
  CHECK(make_ranges(ParameterLayout{}, {.decay = true}).empty());
}

TEST_CASE("frozen blocks are in no range", "[ranges][freeze]") {
  ParameterLayout layout = two_layers;
  layout.freeze("block2");
  const auto ranges = make_ranges(layout, {});
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0] == kernels::UpdateRange{.first = 0, .last = 64});
  CHECK(ranges[1] == kernels::UpdateRange{.first = 96, .last = 160});
  layout.freeze("block*");
  CHECK(make_ranges(layout, {.decay = true}).empty());
}

}  // namespace unisono::optim
