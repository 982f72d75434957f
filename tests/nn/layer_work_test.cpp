// What the passes of a step compute, and which memory they need.
#include "unisono/nn/layer_work.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

#include "layers.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

double flops_of(const std::vector<LayerWork>& step) {
  return std::accumulate(step.begin(), step.end(), 0.0,
                         [](double sum, const LayerWork& work) { return sum + work.flops; });
}

/// Floats of the ranges in a vector.
Index floats_in(const std::vector<StepRange>& ranges, StepVector of) {
  Index floats = 0;
  for (const StepRange& touched : ranges) floats += touched.of == of ? touched.range.last - touched.range.first : 0;
  return floats;
}

TEST_CASE("a step's passes, with their flops and the vectors that they touch", "[layer_work]") {
  ReferenceBackend backend;
  const Network network({.layers = {dense(20), layer("relu"), dense(3)}}, {{16}}, backend);
  const Index batch = 8;
  const std::vector<LayerWork> step = work_of_step(network, backend, batch);
  std::vector<std::string> names;
  for (const LayerWork& work : step) names.push_back(work.layer + (work.is_backward ? " backward" : ""));
  REQUIRE(names == std::vector<std::string>{"dense1", "dense2", "dense2 backward", "dense1 backward"});

  // The first layer has no gradient of its inputs.
  CHECK(step[0].flops == 2.0 * 8 * 16 * 20);
  CHECK(step[1].flops == 2.0 * 8 * 20 * 3);
  CHECK(step[2].flops == 2 * 2.0 * 8 * 20 * 3);
  CHECK(step[3].flops == 2.0 * 8 * 16 * 20);

  const Index first = floats_in(step[0].reads, StepVector::parameters);
  const Index second = floats_in(step[1].reads, StepVector::parameters);
  CHECK(first >= 16 * 20 + 20);
  CHECK(first + second == network.parameters().size());
  CHECK(floats_in(step[2].reads, StepVector::parameters) == second);
  CHECK(floats_in(step[3].reads, StepVector::parameters) == 0);
  CHECK(floats_in(step[2].writes, StepVector::gradient) == second);
  CHECK(floats_in(step[3].writes, StepVector::gradient) == first);

  const auto size = [&](Index values) { return round_up_to_line(backend.activation_size({values}, batch)); };
  CHECK(floats_in(step[0].reads, StepVector::workspace) == size(16));
  CHECK(floats_in(step[0].writes, StepVector::workspace) == size(20));
  CHECK(floats_in(step[2].writes, StepVector::workspace) == size(20));
  // The inputs, the outputs (of ReLU) and their gradient.
  CHECK(floats_in(step[3].reads, StepVector::workspace) == size(16) + 2 * size(20));
  const Index floats = network.plan(batch, true).floats;
  for (const LayerWork& work : step) {
    for (const auto* ranges : {&work.reads, &work.writes}) {
      for (const StepRange& touched : *ranges) {
        CHECK(touched.range.first < touched.range.last);
        if (touched.of == StepVector::workspace) CHECK(touched.range.last <= floats);
      }
    }
  }
}

TEST_CASE("frozen layers have no gradient to write, and those before them no backward pass", "[layer_work]") {
  ReferenceBackend backend;
  const Network network({.layers = {dense(20), layer("relu"), dense(3)}}, {{16}}, backend, {.freeze = {"dense1.*"}});
  const std::vector<LayerWork> step = work_of_step(network, backend, 8);
  REQUIRE(step.size() == 3);
  CHECK(step[2].layer == "dense2");
  CHECK(step[2].flops == 2.0 * 8 * 20 * 3);  // of its weights alone
  CHECK(floats_in(step[2].reads, StepVector::parameters) == 0);
}

TEST_CASE("a backward pass that makes the step of its weights writes the gradient of the others alone",
          "[layer_work]") {
  const auto backend = kernels::make_cpu_backend(1);
  const NetworkSettings settings{.layers = {dense(20), layer("relu"), dense(3)}};
  const Network network(settings, {{16}}, *backend);
  const std::vector<Block>& blocks = network.parameters().blocks();
  const auto weights = [&](std::size_t i) {
    return FloatRange{blocks[i].offset, blocks[i].offset + blocks[i].stored_size()};
  };
  REQUIRE(network.steps_at_once() == std::vector<FloatRange>{weights(0), weights(2)});
  const std::vector<LayerWork> apart = work_of_step(network, *backend, 8);
  const std::vector<LayerWork> step = work_of_step(network, *backend, 8, /*at_once=*/true);
  REQUIRE(step.size() == apart.size());
  CHECK(step[2].step == weights(2));
  CHECK(step[3].step == weights(0));
  CHECK(apart[3].step == FloatRange{});
  const auto written = [](const LayerWork& work) { return floats_in(work.writes, StepVector::gradient); };
  CHECK(written(apart[3]) - written(step[3]) == 16 * 20);
  CHECK(written(step[3]) >= 20);  // of the bias

  const Network frozen(settings, {{16}}, *backend, {.freeze = {"dense1.weight"}});
  CHECK(frozen.steps_at_once() == std::vector<FloatRange>{weights(2)});
  CHECK(Network(settings, {{16}}, *std::make_unique<ReferenceBackend>()).steps_at_once().empty());
}

TEST_CASE("what is computed anew counts in the backward pass", "[layer_work]") {
  ReferenceBackend backend;
  const NetworkSettings settings{.layers = {dense(16), residual({dense(16), layer("relu"), dense(16)}), dense(3)}};
  const Network kept(settings, {{16}}, backend), anew(settings, {{16}}, backend, {.recomputes_blocks = true});
  const std::vector<LayerWork> more = work_of_step(anew, backend, 8), step = work_of_step(kept, backend, 8);
  CHECK(flops_of(more) == flops_of(step) + 2.0 * 8 * 16 * 16);  // the outputs of the block's first layer
  const auto forward = [](const LayerWork& work) { return !work.is_backward; };
  CHECK(std::ranges::count_if(more, forward) == std::ranges::count_if(step, forward));
  CHECK(more.size() == step.size() + 1);
}

}  // namespace
}  // namespace unisono::nn
