#include "run/initialise_from.hpp"

#include <catch2/catch.hpp>

namespace unisono::session {
namespace {

ParameterLayout layout_of(const std::vector<Block>& blocks) {
  ParameterLayout layout;
  for (const Block& block : blocks) layout.add(block);
  return layout;
}

}  // namespace

TEST_CASE("blocks of the same name and shape fit; layers are named once", "[initialise_from]") {
  const ParameterLayout layout = layout_of({{.name = "dense1.weight", .shape = {3, 4}},
                                            {.name = "dense1.bias", .shape = {3}},
                                            {.name = "dense2.weight", .shape = {5, 3}},
                                            {.name = "dense2.bias", .shape = {5}},
                                            {.name = "dense3.weight", .shape = {2, 5}}});
  const Fitting fitting = fitting_blocks(layout, {{"dense1.weight", {3, 4}},
                                                  {"dense1.bias", {3}},
                                                  {"dense2.weight", {10, 3}},
                                                  {"dense2.bias", {5}},
                                                  {"head.weight", {1, 10}},
                                                  {"head.bias", {1}}});
  CHECK(fitting.blocks == std::vector<bool>{true, true, false, true, false});
  CHECK(fitting.count == 3);
  CHECK(fitting.parameters == 20);
  CHECK(fitting.begin == std::vector<std::string>{"dense2.weight: 10 × 3 in the checkpoint, 5 × 3 in this model",
                                                  "dense3: 2 × 5 in this model, not in the checkpoint"});
  CHECK(fitting.foreign == std::vector<std::string>{"head"});
}

TEST_CASE("an update rule's own state is not taken from another run", "[initialise_from]") {
  const ParameterLayout layout = layout_of(
      {{.name = "users.factors", .shape = {3, 4}}, {.name = "users.squares", .shape = {3}, .role = Role::state}});
  const Fitting fitting = fitting_blocks(layout, {{"users.factors", {3, 4}}, {"users.squares", {3}}});
  CHECK(fitting.blocks == std::vector<bool>{true, false});
  CHECK(fitting.begin.empty());
  CHECK(fitting.foreign.empty());
}

}  // namespace unisono::session
