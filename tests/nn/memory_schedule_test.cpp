// The plan of a network's memory: nothing that is needed at the same time may overlap, and little more is asked for.
#include "graph.hpp"

#include <catch2/catch.hpp>

#include "network_trial.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

Slot span_of(int first, int last) { return {.extent = {}, .first = first, .last = last}; }

TEST_CASE("pieces of memory that are never needed together share their place", "[memory_schedule]") {
  const auto [offsets, floats] = arrange({span_of(0, 1), span_of(2, 3), span_of(4, 5)}, {10, 30, 20});
  CHECK(floats == 30);
  CHECK(offsets == std::vector<Index>{0, 0, 0});
}

TEST_CASE("pieces that are needed together lie apart; gaps are used", "[memory_schedule]") {
  // By hand: 40 at 0; 30 needs moment 2, too: at 40; 10 meets both at moment 2: at 70; 20 meets the second alone: at 0.
  const auto [offsets, floats] =
      arrange({span_of(0, 2), span_of(2, 4), span_of(2, 2), span_of(3, 4)}, {40, 30, 10, 20});
  CHECK(offsets == std::vector<Index>{0, 40, 70, 0});
  CHECK(floats == 80);
}

TEST_CASE("no arrangement overlaps in time and place", "[memory_schedule]") {
  RandomStream random(1, Purpose::test);
  for (int round = 0; round < 50; ++round) {
    std::vector<Slot> slots;
    std::vector<Index> sizes;
    for (int i = 0; i < 20; ++i) {
      const int first = static_cast<int>(random.below(20));
      slots.push_back(span_of(first, first + static_cast<int>(random.below(6))));
      sizes.push_back(static_cast<Index>(random.below(5)) * 16);
    }
    const auto [offsets, floats] = arrange(slots, sizes);
    for (std::size_t a = 0; a < slots.size(); ++a) {
      CHECK(offsets[a] + sizes[a] <= floats);
      for (std::size_t b = 0; b < a; ++b) {
        const bool in_time = slots[a].first <= slots[b].last && slots[b].first <= slots[a].last;
        const bool in_place = offsets[a] < offsets[b] + sizes[b] && offsets[b] < offsets[a] + sizes[a];
        CHECK_FALSE((in_time && in_place && sizes[a] > 0 && sizes[b] > 0));
      }
    }
  }
}

Graph graph_of(const std::vector<LayerSettings>& layers, const kernels::Extent& in) {
  ReferenceBackend backend;
  ParameterLayout parameters, statistics;
  Graph graph = build_graph({.layers = layers}, {in});
  fuse(graph, backend);
  for (Node& node : graph.nodes) {
    node.first = parameters.size();
    node.layer->declare(node.name, backend, parameters, statistics);
    node.last = parameters.size();
    node.learns = node.last > node.first;
  }
  return graph;
}

MemorySchedule training_schedule(const Graph& graph) {
  return make_memory_schedule({graph, 0, static_cast<int>(graph.nodes.size())}, PassKind::training);
}

TEST_CASE("activations run in place where nobody needs what they overwrite", "[memory_schedule]") {
  // tanh keeps its output, dense its input: tensor 1 is overwritten by tensor 2.
  const MemorySchedule in_place = training_schedule(graph_of({dense(3), layer("tanh"), dense(2)}, {4, 1, 1}));
  CHECK(in_place.forward.activation[1] == in_place.forward.activation[2]);
  // GELU's gradient needs its input.
  const MemorySchedule apart = training_schedule(graph_of({dense(3), layer("gelu"), dense(2)}, {4, 1, 1}));
  CHECK(apart.forward.activation[1] != apart.forward.activation[2]);
  // The first tanh keeps its output, so that the second must not overwrite it.
  const MemorySchedule twice =
      training_schedule(graph_of({dense(3), layer("tanh"), layer("tanh"), dense(2)}, {4, 1, 1}));
  CHECK(twice.forward.activation[1] == twice.forward.activation[2]);
  CHECK(twice.forward.activation[2] != twice.forward.activation[3]);
  // The shortcut reads it, too.
  const MemorySchedule read = training_schedule(graph_of({dense(3), residual({layer("tanh"), dense(3)})}, {4, 1, 1}));
  CHECK(read.forward.activation[1] != read.forward.activation[2]);
}

TEST_CASE("the first layer that learns gives no gradient of its inputs", "[memory_schedule]") {
  const MemorySchedule schedule = training_schedule(graph_of({layer("tanh"), dense(3), dense(2)}, {4, 1, 1}));
  CHECK(schedule.backward[0].dy == -1);
  CHECK(schedule.backward[1].dx == -1);
  CHECK(schedule.backward[2].dx >= 0);
}

TEST_CASE("outside training a chain of layers needs two buffers", "[memory_schedule]") {
  ReferenceBackend backend;
  const Network network({.layers = {dense(64), dense(64), dense(64), dense(64)}}, {{64, 1, 1}}, backend);
  CHECK(network.plan(10, false).floats == 2 * 640);
  // Training keeps five activations; while the loss runs there is a gradient, too, and in the backward pass two of them
  // beside at most four inputs.
  CHECK(network.plan(10, true).floats == 6 * 640);
}

TEST_CASE("of residual blocks that are computed anew only the inputs are kept", "[memory_schedule]") {
  const auto floats = [](int blocks, bool again) {
    ReferenceBackend backend;
    std::vector<LayerSettings> layers = {dense(64)};
    for (int i = 0; i < blocks; ++i) layers.push_back(residual({dense(128), layer("gelu"), dense(64)}));
    layers.push_back(dense(64));
    return Network({.layers = layers}, {{64, 1, 1}}, backend, {.recomputes_blocks = again}).plan(10, true).floats;
  };
  // A block's inputs are 640 floats; GELU's inputs and its outputs 1,280 each.
  for (const int blocks : {3, 4, 7}) {
    CHECK(floats(blocks + 1, false) - floats(blocks, false) == 640 + 2 * 1280);
    CHECK(floats(blocks + 1, true) - floats(blocks, true) == 640);
  }
  CHECK(floats(7, true) < floats(3, false));
}

TEST_CASE("nodes whose results the backward pass does not read are not run again", "[memory_schedule]") {
  // 0 dense; 1 … 4 the block: dense, GELU, dense, addition; 5 dense. The last dense layer needs its inputs alone.
  Graph graph = graph_of({dense(6), residual({dense(8), layer("gelu"), dense(6)}), dense(2)}, {4, 1, 1});
  graph.recomputes_blocks = true;
  CHECK(training_schedule(graph).runs_again == std::vector<bool>{false, true, true, false, false, false});
  for (Node& node : graph.nodes) node.learns = false;
  graph.nodes.back().learns = true;  // behind the block: it has no backward pass
  CHECK(training_schedule(graph).recomputed.empty());
}

TEST_CASE("every size and offset of a plan is a multiple of a cache line", "[memory_schedule]") {
  ReferenceBackend backend;
  const Network network({.layers = {convolution(3, {3}), layer("batch_norm"), layer("gelu"), dense(7)}}, {{1, 5, 5}},
                        backend);
  for (const Index batch : {1, 3, 7}) {
    const WorkspacePlan plan = network.plan(batch, true);
    for (const Index size : plan.sizes) CHECK(size % 16 == 0);
    for (const Index offset : plan.offsets) CHECK(offset % 16 == 0);
    CHECK(plan.floats % 16 == 0);
  }
}

}  // namespace
}  // namespace unisono::nn
