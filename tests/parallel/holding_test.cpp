// Every kind of Holding that does not need a strategy, through the same checks.
#include <catch2/catch.hpp>
#include <memory>

#include "holding_checks.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::parallel {
namespace {

using Made = std::shared_ptr<const Holding>;

Made whole(const ParameterLayout& layout, comm::Communicator&) { return std::make_shared<WholeHolding>(layout); }

/// What a map says, and what it needs.
struct Mapped {
  Mapped(ShardMap all, comm::Communicator& world, int group)
      : map(std::move(all)),
        copy(world.split(group, world.rank())),
        squares(*copy),
        holding(map, world.rank(), squares) {}
  ShardMap map;
  std::unique_ptr<comm::Communicator> copy;  ///< the ranks that hold one copy together
  comm::CommunicatorSquares squares;
  MapHolding holding;
};

Made mapped(const ShardMap& map, comm::Communicator& world) {
  const int ranks_of_copy = map.ranks() / map.copies();
  const auto made = std::make_shared<Mapped>(map, world, world.rank() / ranks_of_copy);
  return {made, &made->holding};
}

Made stages(const ParameterLayout& layout, comm::Communicator& world) {
  return mapped(test::stages(layout, {0, 3}, world.size() / 2), world);
}

Made rows(const ParameterLayout& layout, comm::Communicator& world) {
  return mapped(test::by_rows(layout, world.size()), world);
}

Made columns(const ParameterLayout& layout, comm::Communicator& world) {
  return mapped(test::by_columns(layout, world.size()), world);
}

Made dealt(const ParameterLayout& layout, comm::Communicator& world) {
  return mapped(test::dealt_rows(layout, world.size()), world);
}

struct Sliced {
  Sliced(Made from, std::vector<FloatRange> slices, SliceHolding::Place place, comm::Communicator& world)
      : squares(world), holding(std::move(from), std::move(slices), place, &squares) {}
  comm::CommunicatorSquares squares;
  SliceHolding holding;
};

Made sliced(const Made& from, std::vector<FloatRange> slices, SliceHolding::Place place, comm::Communicator& world) {
  const auto made = std::make_shared<Sliced>(from, std::move(slices), place, world);
  return {made, &made->holding};
}

/// Slices of several buckets, which begin and end within blocks.
std::vector<FloatRange> small_slices(Index size, int rank, int ranks) {
  return StateShards(size, 4 * 3 * kLineFloats * Index{sizeof(float)}, ranks).ranges_of(rank);
}

Made slices(const ParameterLayout& layout, comm::Communicator& world) {
  return sliced(whole(layout, world), small_slices(layout.size(), world.rank(), world.size()),
                SliceHolding::Place::packed, world);
}

Made slices_in_place(const ParameterLayout& layout, comm::Communicator& world) {
  return sliced(whole(layout, world), small_slices(layout.size(), world.rank(), world.size()),
                SliceHolding::Place::in_place, world);
}

Made slices_of_stages(const ParameterLayout& layout, comm::Communicator& world) {
  const Made stage = stages(layout, world);
  return sliced(stage, small_slices(stage->size(), world.rank() / 2, world.size() / 2), SliceHolding::Place::packed,
                world);
}

Made shards_of_method(const ParameterLayout& layout, comm::Communicator& world) {
  const FloatRange own = VectorShards(layout.size(), world.size()).shard(world.rank());
  return sliced(whole(layout, world), {own}, SliceHolding::Place::packed, world);
}

struct Kind {
  const char* name;
  Made (*make)(const ParameterLayout& layout, comm::Communicator& world);
  std::vector<int> ranks;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"whole", whole, {1, 3}},
                                        {"stages", stages, {2, 4}},
                                        {"rows", rows, {1, 2, 3}},
                                        {"columns", columns, {2, 3}},
                                        {"rows dealt round", dealt, {2, 3}},
                                        {"slices", slices, {2, 3}},
                                        {"slices in place", slices_in_place, {2, 3}},
                                        {"slices of stages", slices_of_stages, {4, 6}},
                                        {"shards of a method", shards_of_method, {2, 3}}};
  return all;
}

TEST_CASE("every kind holds each number once, and makes of it what a rank that holds all would", "[holding]") {
  const ParameterLayout layout = test::mixed_layout();
  for (const Kind& kind : kinds()) {
    for (const int ranks : kind.ranks) {
      INFO(kind.name << " on " << ranks);
      comm::run_as_threads(ranks,
                           [&](comm::Communicator& world) { test::expect_holding(world, *kind.make(layout, world)); });
    }
  }
}

/// A layout with blocks whose rows lie beside each other, in parts that begin anywhere, between two others.
ParameterLayout interleaved_layout() {
  ParameterLayout layout;
  layout.add({.name = "first.weight", .shape = {9, 7}});
  layout.add_rows({{{.name = "table.factors", .shape = {6, 5}}, 0},
                   {{.name = "table.biases", .shape = {6, 1}, .role = Role::bias}, 5}},
                  16);
  layout.add({.name = "frozen.weight", .shape = {40}, .frozen = true});
  layout.add({.name = "last.bias", .shape = {21}, .role = Role::bias});
  return layout;
}

TEST_CASE("ranks that hold parts of blocks together make the steps of rules with a rate for each block", "[holding]") {
  const ParameterLayout layout = interleaved_layout();
  for (const char* rule : {"lars", "lamb"}) {
    const optim::OptimizerSettings settings{.kind = rule, .learning_rate = 0.1, .weight_decay = 0.01, .clip_norm = 0.5};
    const std::vector<float> gradient = test::told_apart(layout, -0.7F);
    std::vector<float> whole = test::told_apart(layout);
    const auto backend = kernels::make_cpu_backend(1);
    const auto optimizer = optim::make_optimizer(settings, layout, *backend);
    for (int step = 0; step < 3; ++step) optimizer->step(whole, gradient, 0.1);
    REQUIRE(whole != test::told_apart(layout));
    for (const Kind& kind : {Kind{"stages", stages, {2, 4}}, Kind{"slices", slices, {2, 3}},
                             Kind{"slices of stages", slices_of_stages, {4, 6}}}) {
      for (const int ranks : kind.ranks) {
        INFO(rule << ", " << kind.name << " on " << ranks);
        comm::run_as_threads(ranks, [&](comm::Communicator& world) {
          const Made held = kind.make(layout, world);
          const auto cpu = kernels::make_cpu_backend(1);
          const auto own = optim::make_optimizer(settings, *held, *cpu);
          std::vector<float> theta = test::part_of(*held, test::told_apart(layout));
          const std::vector<float> g = test::part_of(*held, gradient);
          for (int step = 0; step < 3; ++step) own->step(theta, g, 0.1);
          EXPECT(test::gathered(world, *held, theta) == whole);
        });
      }
    }
  }
}

TEST_CASE("slices are packed, or stay where they are", "[holding]") {
  ParameterLayout layout;
  layout.add({.name = "w", .shape = {5, 16}});
  test::LocalSquares squares;
  const auto all = std::make_shared<WholeHolding>(layout);
  const std::vector<FloatRange> own = {{16, 32}, {48, 80}};
  const SliceHolding packed(all, own, SliceHolding::Place::packed, &squares);
  const SliceHolding in_place(all, own, SliceHolding::Place::in_place, &squares);
  CHECK(packed.size() == 48);
  CHECK(in_place.size() == 80);
  REQUIRE(packed.shards().size() == 2);
  CHECK(packed.shards()[1].box.front() == AxisRange{.first = 3, .count = 2});
  CHECK(packed.shards()[1].place.offset == 16);
  CHECK(in_place.shards()[1].place.offset == 48);
  CHECK(joined(packed.ranges()) == std::vector<FloatRange>{{0, 48}});
  CHECK(joined(in_place.ranges()) == own);
}

}  // namespace
}  // namespace unisono::parallel
